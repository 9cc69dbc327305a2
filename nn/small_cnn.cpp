#include "core/error.h"
#include "core/ops/activation.h"
#include "core/ops/pool.h"
#include "core/ops/shape.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/models.h"

namespace fulcrum::nn {
namespace {

class SmallCnn : public Module {
  public:
    explicit SmallCnn(std::int64_t num_classes)
        : conv1_(register_module("conv1", std::make_shared<Conv2d>(Conv2dOptions(3, 32, 3).padding(1)))),
          conv2_(register_module("conv2", std::make_shared<Conv2d>(Conv2dOptions(32, 64, 3).padding(1)))),
          fc1_(register_module("fc1", std::make_shared<Linear>(64 * 8 * 8, 128))),
          fc2_(register_module("fc2", std::make_shared<Linear>(128, num_classes))) {}

    Tensor forward(const Tensor& x) override {
        if (x.dim() != 4 || x.size(1) != 3 || x.size(2) != 32 || x.size(3) != 32) {
            throw ShapeError("small_cnn: takes [N, 3, 32, 32] but the input is " + to_string(x.shape()));
        }
        const Pool2dParams halve;
        Tensor y = max_pool2d(relu((*conv1_)(x)), halve);
        y = max_pool2d(relu((*conv2_)(y)), halve);
        return (*fc2_)(relu((*fc1_)(flatten(y, 1))));
    }

  private:
    std::shared_ptr<Conv2d> conv1_, conv2_;
    std::shared_ptr<Linear> fc1_, fc2_;
};

}  // namespace

std::shared_ptr<Module> small_cnn(const ModelOptions& options) {
    options.check();
    return std::make_shared<SmallCnn>(options.num_classes);
}

}  // namespace fulcrum::nn
