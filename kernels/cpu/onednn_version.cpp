#include "kernels/cpu/onednn_version.h"

#include "kernels/cpu/onednn.h"

#include <oneapi/dnnl/dnnl_version.h>

namespace fulcrum::cpu::onednn {

namespace {

constexpr auto kDirect = dnnl::algorithm::convolution_direct;
constexpr auto kTraining = dnnl::prop_kind::forward_training;

/// Builds a primitive descriptor from the operation's arguments and the trailing arguments that both versions
/// put at the end of the primitive descriptor (attributes, and before them a hint).
template <class Primitive, class... Hint, class... Arguments>
typename Primitive::primitive_desc describe(const dnnl::primitive_attr& attributes, const Hint&... hint,
                                            const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
    return typename Primitive::primitive_desc(engine(), arguments..., hint..., attributes);
#else
    return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attributes, engine(),
                                              hint...);
#endif
}

}  // namespace

dnnl::convolution_forward::primitive_desc convolution_forward_desc(const dnnl::memory::desc& input,
                                                                   const dnnl::memory::desc& weight,
                                                                   const dnnl::memory::desc& bias,
                                                                   const dnnl::memory::desc& output,
                                                                   const ConvolutionGeometry& geometry,
                                                                   const dnnl::primitive_attr& attributes) {
    return describe<dnnl::convolution_forward>(attributes, kTraining, kDirect, input, weight, bias, output,
                                               geometry.strides, geometry.dilates, geometry.padding_begin,
                                               geometry.padding_end);
}

dnnl::convolution_backward_data::primitive_desc convolution_backward_data_desc(
    const dnnl::memory::desc& grad_input, const dnnl::memory::desc& weight,
    const dnnl::memory::desc& grad_output, const ConvolutionGeometry& geometry,
    const dnnl::convolution_forward::primitive_desc& hint, const dnnl::primitive_attr& attributes) {
    return describe<dnnl::convolution_backward_data, dnnl::convolution_forward::primitive_desc>(
        attributes, hint, kDirect, grad_input, weight, grad_output, geometry.strides, geometry.dilates,
        geometry.padding_begin, geometry.padding_end);
}

dnnl::convolution_backward_weights::primitive_desc convolution_backward_weights_desc(
    const dnnl::memory::desc& input, const dnnl::memory::desc& grad_weight,
    const dnnl::memory::desc& grad_output, const ConvolutionGeometry& geometry,
    const dnnl::convolution_forward::primitive_desc& hint, const dnnl::primitive_attr& attributes) {
    return describe<dnnl::convolution_backward_weights, dnnl::convolution_forward::primitive_desc>(
        attributes, hint, kDirect, input, grad_weight, grad_output, geometry.strides, geometry.dilates,
        geometry.padding_begin, geometry.padding_end);
}

dnnl::matmul::primitive_desc matmul_desc(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                         const dnnl::memory::desc& bias, const dnnl::memory::desc& c,
                                         const dnnl::primitive_attr& attributes) {
    return describe<dnnl::matmul>(attributes, a, b, bias, c);
}

}  // namespace fulcrum::cpu::onednn
