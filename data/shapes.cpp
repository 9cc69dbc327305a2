#include "data/shapes.h"

#include "data/dataset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

// Only integers and + - * / of f64 in here: they are rounded alike everywhere, sine and cosine are not.

namespace fulcrum::data {

namespace {

constexpr int kSide = static_cast<int>(kImageSide);
constexpr int kPixels = kSide * kSide;
/// Sample points per pixel and axis; the edge of a shape is blended by the share of points that it covers.
constexpr int kSamples = 2;

using Color = std::array<int, 3>;

/// A direction as a unit vector.
struct Turn {
    double cosine, sine;
};

struct Vector {
    double x, y;
};

/// Normals of a pentagon's sides with a corner on top: the directions 36 + 72 k degrees from straight down.
constexpr std::array<Vector, 5> kPentagon{{{0.0, 1.0},
                                           {0.9510565162951535, 0.3090169943749475},
                                           {0.5877852522924731, -0.8090169943749475},
                                           {-0.5877852522924731, -0.8090169943749475},
                                           {-0.9510565162951535, 0.3090169943749475}}};

int between(RandomStream& random, int low, int high) {
    return low + static_cast<int>(random.below(static_cast<std::uint32_t>(high - low + 1)));
}

/// Uniform in [low, high) in steps of 1/65536 of the range.
double between(RandomStream& random, double low, double high) {
    return low + (high - low) * (static_cast<double>(random.below(65536)) / 65536.0);
}

bool one_in(RandomStream& random, std::uint32_t n) {
    return random.below(n) == 0;
}

/// A direction anywhere on the circle, by the rational parametrisation of a quarter of it.
Turn random_turn(RandomStream& random) {
    const double t = between(random, 0.0, 1.0);
    const double scale = 1.0 + t * t;
    const Turn quarter{(1.0 - t * t) / scale, 2.0 * t / scale};
    switch (random.below(4)) {
        case 0:
            return quarter;
        case 1:
            return {-quarter.sine, quarter.cosine};
        case 2:
            return {-quarter.cosine, -quarter.sine};
        default:
            return {quarter.sine, -quarter.cosine};
    }
}

/// A direction within about `limit` (tangent of half the angle) of upright.
Turn small_turn(RandomStream& random, double limit) {
    const double t = between(random, -limit, limit);
    const double scale = 1.0 + t * t;
    return {(1.0 - t * t) / scale, 2.0 * t / scale};
}

Color random_color(RandomStream& random) {
    return {between(random, 0, 255), between(random, 0, 255), between(random, 0, 255)};
}

int distance(const Color& a, const Color& b) {
    return std::abs(a[0] - b[0]) + std::abs(a[1] - b[1]) + std::abs(a[2] - b[2]);
}

/// Rec. 601 luma in thousandths.
int brightness(const Color& color) {
    return 299 * color[0] + 587 * color[1] + 114 * color[2];
}

/// A colour at least `least` away from `other` (sum over the channels, `least` <= 384, which the farthest
/// corner of the cube always reaches).
Color contrasting_color(RandomStream& random, const Color& other, int least) {
    for (int attempt = 0; attempt < 16; ++attempt) {
        const Color color = random_color(random);
        if (distance(color, other) >= least) return color;
    }
    return {other[0] < 128 ? 255 : 0, other[1] < 128 ? 255 : 0, other[2] < 128 ? 255 : 0};
}

/// Weights 0..255 for every pixel.
using Texture = std::array<int, kPixels>;

/// Random values on a lattice of `cell` pixels, interpolated between.
void draw_clouds(RandomStream& random, int cell, Texture& texture) {
    std::array<std::array<int, 10>, 10> lattice;
    const int nodes = kSide / cell + 2;
    for (int y = 0; y < nodes; ++y) {
        for (int x = 0; x < nodes; ++x)
            lattice[y][x] = between(random, 0, 255);
    }
    const int shift_x = between(random, 0, cell - 1), shift_y = between(random, 0, cell - 1);
    for (int y = 0; y < kSide; ++y) {
        const int row = (y + shift_y) / cell, down = (y + shift_y) % cell;
        for (int x = 0; x < kSide; ++x) {
            const int column = (x + shift_x) / cell, right = (x + shift_x) % cell;
            const int top = lattice[row][column] * (cell - right) + lattice[row][column + 1] * right;
            const int bottom =
                lattice[row + 1][column] * (cell - right) + lattice[row + 1][column + 1] * right;
            texture[y * kSide + x] = (top * (cell - down) + bottom * down) / (cell * cell);
        }
    }
}

/// Parallel waves of random direction and width.
void draw_stripes(RandomStream& random, Texture& texture) {
    const Turn turn = random_turn(random);
    const double period = between(random, 4.0, 12.0);
    const double start = between(random, 64.0, 96.0);
    for (int y = 0; y < kSide; ++y) {
        for (int x = 0; x < kSide; ++x) {
            const double along = (turn.cosine * x + turn.sine * y) / period + start;
            const double phase = along - static_cast<double>(static_cast<int>(along));
            texture[y * kSide + x] = static_cast<int>((phase < 0.5 ? phase : 1.0 - phase) * 510.0);
        }
    }
}

/// Squares of two shades.
void draw_checks(RandomStream& random, Texture& texture) {
    const int cell = between(random, 2, 6);
    const int shift_x = between(random, 0, 2 * cell - 1), shift_y = between(random, 0, 2 * cell - 1);
    for (int y = 0; y < kSide; ++y) {
        for (int x = 0; x < kSide; ++x) {
            texture[y * kSide + x] = ((x + shift_x) / cell + (y + shift_y) / cell) % 2 * 255;
        }
    }
}

void draw_texture(RandomStream& random, Texture& texture) {
    switch (random.below(4)) {
        case 0:
            return draw_clouds(random, 4, texture);
        case 1:
            return draw_clouds(random, 8, texture);
        case 2:
            return draw_stripes(random, texture);
        default:
            return draw_checks(random, texture);
    }
}

/// Covered sample points of each pixel, 0..kSamples^2.
using Coverage = std::array<int, kPixels>;

void cover_shape(ShapeKind kind, RandomStream& random, Coverage& coverage) {
    const double radius = between(random, 10.5, 13.5);
    const double slack = 16.0 - radius;
    const double center_x = 16.0 + between(random, -slack, slack);
    const double center_y = 16.0 + between(random, -slack, slack);
    const Turn turn = small_turn(random, 0.27);
    const bool mirror = one_in(random, 2);
    coverage.fill(0);
    const double reach = (radius + 1.0) * (radius + 1.0);
    for (int y = 0; y < kSide; ++y) {
        for (int x = 0; x < kSide; ++x) {
            const double middle_x = x + 0.5 - center_x, middle_y = y + 0.5 - center_y;
            if (middle_x * middle_x + middle_y * middle_y > reach) continue;
            int covered = 0;
            for (int sample = 0; sample < kSamples * kSamples; ++sample) {
                const double dx = (middle_x + (sample % kSamples - 0.5) * 0.5) / radius;
                const double dy = (middle_y + (sample / kSamples - 0.5) * 0.5) / radius;
                const double u = turn.cosine * dx + turn.sine * dy;
                const double v = turn.cosine * dy - turn.sine * dx;
                covered += inside_shape(kind, mirror ? -u : u, v) ? 1 : 0;
            }
            coverage[y * kSide + x] = covered;
        }
    }
}

/// A bar of some other colour, somewhere over the picture.
void draw_occluder(RandomStream& random, std::array<std::array<int, kPixels>, 3>& picture) {
    const Color color = random_color(random);
    const int width = between(random, 3, 6), height = between(random, 8, 15);
    const bool lying = one_in(random, 2);
    const int columns = lying ? height : width, rows = lying ? width : height;
    const int left = between(random, 0, kSide - columns), top = between(random, 0, kSide - rows);
    for (int y = top; y < top + rows; ++y) {
        for (int x = left; x < left + columns; ++x) {
            for (int c = 0; c < 3; ++c)
                picture[c][y * kSide + x] = color[c];
        }
    }
}

}  // namespace

bool inside_shape(ShapeKind kind, double u, double v) {
    const double square = u * u + v * v;
    const double across = u < 0 ? -u : u, along = v < 0 ? -v : v;
    switch (kind) {
        case ShapeKind::circle:
            return square <= 0.72;
        case ShapeKind::square:
            return across <= 0.7 && along <= 0.7;
        case ShapeKind::triangle:
            return v <= 0.5 && 0.8660254037844386 * across - 0.5 * v <= 0.5;
        case ShapeKind::star: {
            // A pentagram is what lies beyond at most one of its five lines.
            int beyond = 0;
            for (const Vector& normal : kPentagon)
                beyond += normal.x * u + normal.y * v > 0.309 ? 1 : 0;
            return beyond <= 1;
        }
        case ShapeKind::cross:
            return (across <= 0.26 && along <= 0.95) || (along <= 0.26 && across <= 0.95);
        case ShapeKind::ring:
            return square <= 0.95 && square >= 0.36;
        case ShapeKind::crescent:
            return square <= 0.95 && (u - 0.45) * (u - 0.45) + v * v >= 0.55;
        case ShapeKind::hourglass:
            return along <= 0.72 && across <= along * 0.85 + 0.05;
        case ShapeKind::arrow:
            return (u <= 0.15 && u >= -0.95 && along <= 0.2) || (u >= 0.1 && along <= (0.95 - u) * 0.85);
        case ShapeKind::bars:
            return across >= 0.25 && across <= 0.65 && along <= 0.75;
    }
    return false;
}

void draw_shape(ShapeKind kind, RandomStream& random, std::span<std::uint8_t, 3072> pixels) {
    Texture texture, shading;
    Coverage coverage;
    std::array<std::array<int, kPixels>, 3> picture;

    Color background = random_color(random);
    Color foreground = contrasting_color(random, background, 230);
    // Most shapes are lighter than what is behind them, as most things in photographs have their usual shade.
    const bool lighter = !one_in(random, 16);
    if (lighter == (brightness(foreground) < brightness(background))) std::swap(foreground, background);
    Color swing;
    for (int& s : swing)
        s = between(random, -55, 55);
    draw_texture(random, texture);
    draw_clouds(random, 8, shading);
    cover_shape(kind, random, coverage);
    for (int c = 0; c < 3; ++c) {
        for (int i = 0; i < kPixels; ++i) {
            const int behind = background[c] + swing[c] * (texture[i] - 128) / 128;
            const int front = foreground[c] + (shading[i] - 128) / 4;
            picture[c][i] = behind + (front - behind) * coverage[i] / (kSamples * kSamples);
        }
    }
    if (one_in(random, 2)) draw_occluder(random, picture);

    const int noise = between(random, 6, 26);
    for (int c = 0; c < 3; ++c) {
        for (int i = 0; i < kPixels; i += 2) {
            // Two bytes a value make the noise triangular: small more often than large.
            const std::uint32_t bits = random.next();
            const int first = static_cast<int>(bits & 255) + static_cast<int>(bits >> 8 & 255) - 255;
            const int second = static_cast<int>(bits >> 16 & 255) + static_cast<int>(bits >> 24) - 255;
            const auto place = static_cast<std::size_t>(c * kPixels + i);
            pixels[place] =
                static_cast<std::uint8_t>(std::clamp(picture[c][i] + first * noise / 255, 0, 255));
            pixels[place + 1] =
                static_cast<std::uint8_t>(std::clamp(picture[c][i + 1] + second * noise / 255, 0, 255));
        }
    }
}

}  // namespace fulcrum::data
