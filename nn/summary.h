#pragma once

/// \file
/// What a network consists of: one row a layer, as data and as a table.

#include "core/shape.h"
#include "nn/module.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fulcrum::nn {

/// One call of a layer that has no children.
struct SummaryRow {
    std::string path;             ///< `layer1.0.conv1`
    std::string type;             ///< `Conv2d`
    Shape output;                 ///< of the call
    std::int64_t parameters = 0;  ///< elements; zero where an earlier row counted them
    MultiplyAdds multiply_adds;
};

/// A network's layers in the order in which they ran, and the totals.
struct Summary {
    Shape input;
    std::vector<SummaryRow> rows;
    std::int64_t parameters = 0;            ///< of the whole network
    std::int64_t trainable_parameters = 0;  ///< of those, the ones that require a gradient
    MultiplyAdds multiply_adds;             ///< of one forward over the input
};

/// Runs `module` once in evaluation mode on zeros of shape `input`, without recording, and lists what ran.
/// The module's modes are put back; nothing else changes. \throws Error when the module does not take such an
/// input.
Summary summarize(Module& module, const Shape& input = {1, 3, 32, 32});

/// The summary as a table of plain text, one line a row, totals last; ends in a newline.
std::string to_string(const Summary& summary);

}  // namespace fulcrum::nn
