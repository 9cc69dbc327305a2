#include "nn/summary.h"

#include "core/autograd.h"
#include "nn/evaluation_mode.h"
#include "nn/observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace fulcrum::nn {
namespace {

/// Elements of the parameters that were not counted before.
std::int64_t count_new(const Module& module, std::vector<Tensor>& counted) {
    std::int64_t count = 0;
    for (const Tensor& parameter : module.parameters()) {
        const bool known = std::any_of(counted.begin(), counted.end(),
                                       [&](const Tensor& other) { return other.is_same(parameter); });
        if (known) continue;
        counted.push_back(parameter);
        count += parameter.numel();
    }
    return count;
}

TensorOptions input_options(const std::vector<Tensor>& parameters) {
    if (parameters.empty()) return {};
    return {.dtype = parameters.front().dtype(), .device = parameters.front().device()};
}

/// 1234567 as 1,234,567.
std::string grouped(std::int64_t value) {
    std::string text = std::to_string(value);
    for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
        text.insert(static_cast<std::size_t>(at), 1, ',');
    return text;
}

using Line = std::array<std::string, 6>;

std::string line_text(const Line& line, const std::array<std::size_t, 6>& widths) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
        // Names to the left, numbers to the right.
        text += i < 3 ? fmt::format("{:<{}}", line[i], widths[i]) : fmt::format("{:>{}}", line[i], widths[i]);
        if (i + 1 < line.size()) text += "  ";
    }
    return text + "\n";
}

}  // namespace

Summary summarize(Module& module, const Shape& input) {
    const NoGradGuard no_grad;
    const EvaluationMode evaluation(module);
    const std::vector<Tensor> parameters = module.parameters();

    Summary summary;
    summary.input = input;
    std::vector<Tensor> counted;
    const CallObserver observer([&](Module& called, const Tensor& x, const Tensor& output) {
        if (called.named_modules().size() > 1) return;
        const MultiplyAdds cost = called.multiply_adds(x.shape(), output.shape());
        summary.rows.push_back(
            {called.path(), called.type_name(), output.shape(), count_new(called, counted), cost});
        summary.multiply_adds.usual += cost.usual;
        summary.multiply_adds.useful += cost.useful;
    });
    module(zeros(input, input_options(parameters)));

    for (const Tensor& parameter : parameters) {
        summary.parameters += parameter.numel();
        if (parameter.requires_grad()) summary.trainable_parameters += parameter.numel();
    }
    return summary;
}

std::string to_string(const Summary& summary) {
    std::vector<Line> lines{{"layer", "type", "output", "parameters", "multiply-adds", "useful"}};
    for (const SummaryRow& row : summary.rows) {
        const bool costs = row.multiply_adds.usual > 0;
        lines.push_back(
            {row.path, row.type, to_string(row.output), row.parameters > 0 ? grouped(row.parameters) : "",
             costs ? grouped(row.multiply_adds.usual) : "", costs ? grouped(row.multiply_adds.useful) : ""});
    }
    lines.push_back({"total", "", "for " + to_string(summary.input), grouped(summary.parameters),
                     grouped(summary.multiply_adds.usual), grouped(summary.multiply_adds.useful)});

    std::array<std::size_t, 6> widths{};
    for (const Line& line : lines) {
        for (std::size_t i = 0; i < line.size(); ++i)
            widths[i] = std::max(widths[i], line[i].size());
    }
    std::size_t width = 2 * (widths.size() - 1);
    for (const std::size_t column : widths)
        width += column;
    const std::string rule = std::string(width, '-') + "\n";

    std::string text = line_text(lines.front(), widths) + rule;
    for (std::size_t i = 1; i + 1 < lines.size(); ++i)
        text += line_text(lines[i], widths);
    text += rule + line_text(lines.back(), widths);
    if (summary.trainable_parameters != summary.parameters)
        text += fmt::format("trainable parameters: {}\n", grouped(summary.trainable_parameters));
    return text;
}

}  // namespace fulcrum::nn
