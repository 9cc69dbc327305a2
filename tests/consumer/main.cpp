#include "core/tensor.h"

#include <fulcrum/fulcrum.h>
#include <fulcrum/nn/conv.h>

#include <cstdio>

// One convolution forward and backward: 27 weights of 0.5 over ones give 13.5 away from the border.
int main() {
    std::printf("fulcrum %s (%s)\n", fulcrum::version().data(), fulcrum::build_options().data());

    const fulcrum::Tensor images = fulcrum::ones({2, 3, 8, 8});
    fulcrum::Tensor weight = fulcrum::full({4, 3, 3, 3}, 0.5);
    weight.set_requires_grad();
    fulcrum::Conv2dParams params;
    params.padding = {1, 1};
    const fulcrum::Tensor output = fulcrum::conv2d(images, weight, {}, params);
    fulcrum::sum(output).backward();

    const float centre = output.to_vector<float>()[8 * 4 + 4];
    const float slope = weight.grad().to_vector<float>()[4];
    std::printf("centre %g, slope %g\n", static_cast<double>(centre), static_cast<double>(slope));

    // The middle tap sees every pixel of both images.
    return consumers_own_tensor() == 42 && centre == 13.5F && slope == 128.0F ? 0 : 1;
}
