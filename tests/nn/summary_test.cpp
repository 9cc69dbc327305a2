#include "nn/summary.h"

#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/models.h"
#include "nn/sequential.h"
#include "tests/catch.h"

#include <algorithm>

using namespace fulcrum;
using Catch::Matchers::Contains;

namespace {

double millions(std::int64_t count) {
    return static_cast<double>(count) / 1e6;
}

}  // namespace

TEST_CASE("multiply-adds of the three networks at 32x32", "[nn]") {
    struct Row {
        const char* name;
        double usual, useful;
    };
    for (const Row& row :
         {Row{"small_cnn", 6.1, 5.7}, Row{"resnet18", 37.0, 21.7}, Row{"resnet50", 83.4, 66.7}}) {
        INFO(row.name);
        const auto model = nn::make_model(row.name);
        const nn::Summary summary = nn::summarize(*model);
        CHECK(millions(summary.multiply_adds.usual) == Catch::Approx(row.usual).margin(0.05));
        CHECK(millions(summary.multiply_adds.useful) == Catch::Approx(row.useful).margin(0.05));
        CHECK(summary.parameters == model->parameter_count());
        std::int64_t listed = 0;
        for (const auto& layer : summary.rows)
            listed += layer.parameters;
        CHECK(listed == summary.parameters);
    }
}

TEST_CASE("a summary has one row a layer in the order of the calls", "[nn]") {
    const auto model = nn::small_cnn();
    const nn::Summary summary = nn::summarize(*model);
    REQUIRE(summary.rows.size() == 4);
    CHECK(summary.rows[0].path == "conv1");
    CHECK(summary.rows[0].type == "Conv2d");
    CHECK(summary.rows[0].output == Shape{1, 32, 32, 32});
    CHECK(summary.rows[0].parameters == 896);
    CHECK(summary.rows[0].multiply_adds.usual == 32 * 32 * 32 * 27);
    // Per dimension 3 * 32 taps less the one at either border that meets padding.
    CHECK(summary.rows[0].multiply_adds.useful == 32 * 3 * 94 * 94);
    CHECK(summary.rows[2].path == "fc1");
    CHECK(summary.rows[2].multiply_adds.useful == 4096 * 128);
    CHECK(summary.rows[3].output == Shape{1, 10});
}

TEST_CASE("a summary leaves the model as it was", "[nn]") {
    const auto model = nn::resnet18();
    for (auto& [name, module] : model->named_modules()) {
        if (name == "layer1") module->eval();
    }
    const nn::StateDict before = nn::clone(model->state_dict());
    const nn::Summary summary = nn::summarize(*model, {2, 3, 64, 64});
    const auto row = std::find_if(summary.rows.begin(), summary.rows.end(),
                                  [](const auto& item) { return item.path == "layer2.0.downsample.0"; });
    REQUIRE(row != summary.rows.end());
    CHECK(row->output == Shape{2, 128, 8, 8});
    for (const auto& [name, module] : model->named_modules())
        CHECK(module->is_training() == (name.rfind("layer1", 0) != 0));
    for (const auto& [name, tensor] : model->state_dict()) {
        if (name.find("running") != std::string::npos || name.find("tracked") != std::string::npos)
            CHECK(tensor.to_vector<double>() == nn::find(before, name)->to_vector<double>());
    }
    CHECK_THROWS_AS(nn::summarize(*model, {1, 5, 32, 32}), ShapeError);
    CHECK(model->is_training());
}

TEST_CASE("shared layers are counted once and run twice", "[nn]") {
    const auto layer = std::make_shared<nn::Linear>(4, 4, false);
    nn::Sequential model{layer, layer};
    const nn::Summary summary = nn::summarize(model, {1, 4});
    REQUIRE(summary.rows.size() == 2);
    CHECK(summary.rows[0].parameters == 16);
    CHECK(summary.rows[1].parameters == 0);
    CHECK(summary.parameters == 16);
    CHECK(summary.multiply_adds.usual == 32);
}

TEST_CASE("the table shows layers, groups digits and ends with the totals", "[nn]") {
    const auto model = nn::small_cnn();
    const std::string text = nn::to_string(nn::summarize(*model));
    CHECK_THAT(text, Contains("conv2") && Contains("[1, 64, 16, 16]") && Contains("524,416") &&
                         Contains("545,098") && Contains("6,128,896"));
    CHECK(text.back() == '\n');
    CHECK_THAT(text, !Contains("trainable"));
    model->named_parameters().front().second.set_requires_grad(false);
    CHECK_THAT(nn::to_string(nn::summarize(*model)), Contains("trainable parameters: 544,234"));
}
