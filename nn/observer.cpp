#include "nn/observer.h"

#include <utility>

namespace fulcrum::nn {
namespace {

thread_local CallObserver* current_observer = nullptr;

}  // namespace

CallObserver::CallObserver(Callback callback)
    : callback_(std::move(callback)), previous_(std::exchange(current_observer, this)) {}

CallObserver::~CallObserver() {
    current_observer = previous_;
}

void CallObserver::notify(Module& module, const Tensor& input, const Tensor& output) {
    if (current_observer != nullptr) current_observer->callback_(module, input, output);
}

}  // namespace fulcrum::nn
