#pragma once

/// \file
/// The one place where oneDNN 2.x and 3.x differ for us: how a primitive's descriptor is built. 2.x goes
/// through an operation descriptor, 3.x takes everything at once.

#include <oneapi/dnnl/dnnl.hpp>

namespace fulcrum::cpu::onednn {

/// Geometry of a convolution in oneDNN's terms (a dilation of 0 is dense).
struct ConvolutionGeometry {
    dnnl::memory::dims strides, dilates, padding_begin, padding_end;
};

/// \param bias an empty description for none.
dnnl::convolution_forward::primitive_desc convolution_forward_desc(const dnnl::memory::desc& input,
                                                                   const dnnl::memory::desc& weight,
                                                                   const dnnl::memory::desc& bias,
                                                                   const dnnl::memory::desc& output,
                                                                   const ConvolutionGeometry& geometry,
                                                                   const dnnl::primitive_attr& attributes);

/// \param hint of the same convolution's forward pass.
dnnl::convolution_backward_data::primitive_desc convolution_backward_data_desc(
    const dnnl::memory::desc& grad_input, const dnnl::memory::desc& weight,
    const dnnl::memory::desc& grad_output, const ConvolutionGeometry& geometry,
    const dnnl::convolution_forward::primitive_desc& hint, const dnnl::primitive_attr& attributes);

/// \param hint of the same convolution's forward pass.
dnnl::convolution_backward_weights::primitive_desc convolution_backward_weights_desc(
    const dnnl::memory::desc& input, const dnnl::memory::desc& grad_weight,
    const dnnl::memory::desc& grad_output, const ConvolutionGeometry& geometry,
    const dnnl::convolution_forward::primitive_desc& hint, const dnnl::primitive_attr& attributes);

/// \param bias an empty description for none.
dnnl::matmul::primitive_desc matmul_desc(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                         const dnnl::memory::desc& bias, const dnnl::memory::desc& c,
                                         const dnnl::primitive_attr& attributes);

}  // namespace fulcrum::cpu::onednn
