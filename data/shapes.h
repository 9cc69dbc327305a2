#pragma once

/// \file
/// How one synthetic image is drawn. For `synthetic.cpp` and its tests.

#include "core/random.h"

#include <cstdint>
#include <span>

namespace fulcrum::data {

/// The ten outlines, numbered as the labels are.
enum class ShapeKind : std::uint8_t {
    circle,
    square,
    triangle,
    star,
    cross,
    ring,
    crescent,
    hourglass,
    arrow,
    bars,
};
/// How many there are.
inline constexpr int kShapeKinds = 10;

/// Whether a point lies in the upright outline of the given kind, which fits into the unit circle. `u` grows
/// to the right, `v` downwards.
bool inside_shape(ShapeKind kind, double u, double v);

/// Draws one image: a shape on a textured background, sometimes partly covered, with noise over all of it.
/// \param random the numbers to draw from; two equal streams give equal images.
/// \param pixels planar red, green, blue, 32x32 each.
void draw_shape(ShapeKind kind, RandomStream& random, std::span<std::uint8_t, 3072> pixels);

}  // namespace fulcrum::data
