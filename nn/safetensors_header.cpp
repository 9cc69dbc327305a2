#include "nn/safetensors_header.h"

#include "core/error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

namespace fulcrum::nn {

namespace {

struct DTypeName {
    DType dtype;
    std::string_view name;
};

constexpr std::array<DTypeName, 7> kDTypeNames{{{DType::f64, "F64"},
                                                {DType::f32, "F32"},
                                                {DType::bf16, "BF16"},
                                                {DType::f16, "F16"},
                                                {DType::i64, "I64"},
                                                {DType::i32, "I32"},
                                                {DType::u8, "U8"}}};
constexpr std::string_view kKnownDTypes = "F64, F32, BF16, F16, I64, I32 and U8";

std::string_view format_name(DType dtype) {
    return std::ranges::find(kDTypeNames, dtype, &DTypeName::dtype)->name;
}

bool is_control(char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

/// Somebody else's text, short enough and harmless enough for a message.
std::string in_quotes(std::string_view text) {
    constexpr std::size_t kMostBytes = 120;
    std::size_t bytes = std::min(text.size(), kMostBytes);
    while (bytes > 0 && bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xc0U) == 0x80)
        --bytes;
    std::string shown(text.substr(0, bytes));
    std::ranges::replace_if(shown, is_control, '?');
    return fmt::format("'{}{}'", shown, bytes < text.size() ? "..." : "");
}

/// Position of the first byte that is not part of well-formed UTF-8 (RFC 3629), or nothing.
std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    for (std::size_t i = 0; i < text.size();) {
        const unsigned lead = byte(i);
        std::size_t more = 0;
        unsigned low = 0x80;
        unsigned high = 0xbf;
        if (lead < 0x80) {
            more = 0;
        } else if (lead >= 0xc2 && lead <= 0xdf) {
            more = 1;
        } else if (lead >= 0xe0 && lead <= 0xef) {
            more = 2;
            if (lead == 0xe0) low = 0xa0;   // no overlong forms
            if (lead == 0xed) high = 0x9f;  // no surrogates
        } else if (lead >= 0xf0 && lead <= 0xf4) {
            more = 3;
            if (lead == 0xf0) low = 0x90;
            if (lead == 0xf4) high = 0x8f;  // nothing beyond U+10FFFF
        } else {
            return i;
        }
        if (more > text.size() - i - 1) return i;
        for (std::size_t k = 1; k <= more; ++k) {
            if (byte(i + k) < low || byte(i + k) > high) return i;
            low = 0x80;
            high = 0xbf;
        }
        i += more + 1;
    }
    return std::nullopt;
}

/// Receives the JSON text piece by piece and keeps only what a header may contain, so that memory does not
/// grow with what else is written there.
class HeaderReader {
  public:
    HeaderReader(std::uint64_t data_begin, std::uint64_t file_size, const std::string& path)
        : data_begin_(data_begin), data_bytes_(file_size - data_begin), path_(path) {}

    SafetensorsHeader take() {
        check_unique_names();
        check_coverage();
        return std::move(header_);
    }

    // --- Called by the JSON parser: false or an exception ends the parse
    bool null() { return other("null"); }
    bool boolean(bool) { return other("a boolean"); }
    bool number_integer(std::int64_t value) { return number(fmt::format("negative number {}", value)); }
    bool number_float(double, const std::string& text) {
        return number(fmt::format("number {}, which is no integer or too large", in_quotes(text)));
    }
    bool number_unsigned(std::uint64_t value) {
        if (place_ == Place::shape) return dimension(value);
        if (place_ == Place::offsets) return offset(value);
        return other("a number");
    }
    bool string(std::string& text) {
        if (place_ == Place::metadata) {
            if (!header_.metadata.emplace(metadata_key_, std::move(text)).second) {
                fail(fmt::format("{} has the key {} twice", kMetadataName, in_quotes(metadata_key_)));
            }
            return true;
        }
        if (place_ == Place::dtype) return dtype(text);
        return other("a string");
    }
    bool binary(std::vector<std::uint8_t>&) { return other("binary data"); }
    bool start_object(std::size_t) {
        if (place_ == Place::begin) {
            place_ = Place::top;
        } else if (place_ == Place::top && name_ == kMetadataName) {
            if (seen_metadata_) fail(fmt::format("{} is there twice", kMetadataName));
            seen_metadata_ = true;
            place_ = Place::metadata;
        } else if (place_ == Place::top) {
            seen_ = {};
            entry_ = {};
            entry_.name = name_;
            place_ = Place::entry;
        } else {
            return open("an object");
        }
        return true;
    }
    bool start_array(std::size_t) {
        if (place_ == Place::shape_expected) {
            place_ = Place::shape;
        } else if (place_ == Place::offsets_expected) {
            place_ = Place::offsets;
            offset_count_ = 0;
        } else {
            return open("an array");
        }
        return true;
    }
    bool end_object() {
        if (place_ == Place::skipped) return close();
        if (place_ == Place::entry) finish_entry();
        place_ = place_ == Place::top ? Place::end : Place::top;
        return true;
    }
    bool end_array() {
        if (place_ == Place::skipped) return close();
        if (place_ == Place::offsets && offset_count_ != 2) {
            fail_tensor("data_offsets has one number or none, not two");
        }
        place_ = Place::entry;
        return true;
    }
    bool key(std::string& text) {
        if (place_ == Place::top) {
            if (text.empty()) fail("a tensor has an empty name");
            if (std::ranges::any_of(text, is_control)) {
                fail(fmt::format("the name {} has control characters", in_quotes(text)));
            }
            name_ = std::move(text);
        } else if (place_ == Place::metadata) {
            metadata_key_ = std::move(text);
        } else if (place_ == Place::entry) {
            field(text);
        }
        return true;
    }
    bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
        fail(fmt::format("the header is not valid JSON at byte {}", 8 + position));
    }

  private:
    enum class Place {
        begin,
        top,
        metadata,
        entry,
        dtype,
        shape_expected,
        shape,
        offsets_expected,
        offsets,
        skipped,
        end
    };

    [[noreturn]] void fail(const std::string& why) const {
        throw IoError(fmt::format("safetensors file '{}': {}", path_, why));
    }
    [[noreturn]] void fail_tensor(const std::string& why) const {
        fail(fmt::format("tensor {}: {}", in_quotes(name_), why));
    }

    /// A value where none of its kind belongs.
    bool other(const std::string& what) {
        switch (place_) {
            case Place::begin:
                fail(fmt::format("the header is {}, not an object", what));
            case Place::top:
                if (name_ == kMetadataName) fail(fmt::format("{} is {}, not an object", kMetadataName, what));
                fail_tensor(fmt::format("its description is {}, not an object", what));
            case Place::metadata:
                fail(fmt::format("{} key {} is {}, not a string", kMetadataName, in_quotes(metadata_key_),
                                 what));
            case Place::dtype:
                fail_tensor(fmt::format("dtype is {}, not a string", what));
            case Place::shape_expected:
                fail_tensor(fmt::format("shape is {}, not an array", what));
            case Place::offsets_expected:
                fail_tensor(fmt::format("data_offsets is {}, not an array", what));
            case Place::shape:
                fail_tensor(fmt::format("shape holds {}; sizes are integers from 0", what));
            case Place::offsets:
                fail_tensor(fmt::format("data_offsets holds {}; offsets are integers from 0", what));
            default:
                break;
        }
        if (depth_ == 0) place_ = Place::entry;
        return true;
    }
    bool number(const std::string& what) {
        return other((place_ == Place::shape || place_ == Place::offsets) ? fmt::format("the {}", what)
                                                                          : "a number");
    }
    /// A nested value where none belongs: an error, except in a field that the format does not define.
    bool open(const char* what) {
        constexpr int kDeepest = 64;
        if (place_ != Place::skipped) return other(what);
        if (++depth_ > kDeepest) fail_tensor("its description is nested too deeply");
        return true;
    }
    bool close() {
        if (--depth_ == 0) place_ = Place::entry;
        return true;
    }

    void field(const std::string& name) {
        const auto once = [&](bool& seen, Place place) {
            if (std::exchange(seen, true)) fail_tensor(fmt::format("{} is there twice", name));
            place_ = place;
        };
        if (name == "dtype") {
            once(seen_.dtype, Place::dtype);
        } else if (name == "shape") {
            once(seen_.shape, Place::shape_expected);
        } else if (name == "data_offsets") {
            once(seen_.offsets, Place::offsets_expected);
        } else {
            place_ = Place::skipped;
        }
    }

    bool dtype(const std::string& text) {
        const auto* known = std::ranges::find(kDTypeNames, text, &DTypeName::name);
        if (known == kDTypeNames.end()) {
            fail_tensor(fmt::format("dtype {} is not supported; {} are", in_quotes(text), kKnownDTypes));
        }
        entry_.dtype = known->dtype;
        place_ = Place::entry;
        return true;
    }

    bool dimension(std::uint64_t value) {
        if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
            return number(fmt::format("number {}, which is too large", value));
        }
        if (entry_.shape.size() == Dims::kMaxRank) {
            fail_tensor(fmt::format("more than {} dimensions are not supported", Dims::kMaxRank));
        }
        entry_.shape.push_back(static_cast<std::int64_t>(value));
        return true;
    }

    bool offset(std::uint64_t value) {
        if (offset_count_ == 2) fail_tensor("data_offsets has more than two numbers");
        offsets_[offset_count_++] = value;
        return true;
    }

    /// Bytes that shape and dtype need; sizes of 0 do not hide an overflow of the others.
    std::uint64_t needed_bytes() const {
        std::uint64_t bytes = size_of(entry_.dtype);
        bool empty = false;
        for (const std::int64_t size : entry_.shape) {
            empty = empty || size == 0;
            if (size > 0 && bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) /
                                        static_cast<std::uint64_t>(size)) {
                fail_tensor(fmt::format("shape {} of {} overflows 63 bits", to_string(entry_.shape),
                                        format_name(entry_.dtype)));
            }
            bytes *= size > 0 ? static_cast<std::uint64_t>(size) : 1;
        }
        return empty ? 0 : bytes;
    }

    void finish_entry() {
        if (!seen_.dtype) fail_tensor("dtype is missing");
        if (!seen_.shape) fail_tensor("shape is missing");
        if (!seen_.offsets) fail_tensor("data_offsets is missing");
        const auto [begin, end] = offsets_;
        const std::string given = fmt::format("data_offsets [{}, {}]", begin, end);
        const std::uint64_t needed = needed_bytes();
        if (begin > end) fail_tensor(given + " end before they begin");
        if (end > data_bytes_) {
            fail_tensor(fmt::format("{} reach beyond the {} bytes of data: the file is cut short or damaged",
                                    given, data_bytes_));
        }
        if (end - begin != needed) {
            fail_tensor(fmt::format("shape {} of {} needs {} bytes but {} hold {}", to_string(entry_.shape),
                                    format_name(entry_.dtype), needed, given, end - begin));
        }
        entry_.begin = data_begin_ + begin;
        entry_.bytes = needed;
        header_.entries.push_back(std::move(entry_));
    }

    void check_unique_names() {
        std::vector<const std::string*> names;
        names.reserve(header_.entries.size());
        for (const TensorEntry& entry : header_.entries)
            names.push_back(&entry.name);
        std::ranges::sort(names, {}, [](const std::string* name) -> const std::string& { return *name; });
        const auto twice = std::ranges::adjacent_find(
            names, {}, [](const std::string* name) -> const std::string& { return *name; });
        if (twice != names.end()) fail(fmt::format("tensor {} is there twice", in_quotes(**twice)));
    }

    /// The tensors must fill the data exactly.
    void check_coverage() {
        std::vector<const TensorEntry*> order;
        order.reserve(header_.entries.size());
        for (const TensorEntry& entry : header_.entries)
            order.push_back(&entry);
        std::ranges::sort(order, [](const TensorEntry* a, const TensorEntry* b) {
            return std::pair(a->begin, a->bytes) < std::pair(b->begin, b->bytes);
        });
        std::uint64_t covered = data_begin_;
        for (const TensorEntry* entry : order) {
            name_ = entry->name;
            if (entry->begin < covered) fail_tensor("its bytes overlap those of another tensor");
            if (entry->begin > covered) {
                fail_tensor(fmt::format("{} bytes before it belong to no tensor", entry->begin - covered));
            }
            covered += entry->bytes;
        }
        const std::uint64_t rest = data_begin_ + data_bytes_ - covered;
        if (rest > 0) fail(fmt::format("{} bytes at the end belong to no tensor", rest));
    }

    struct Seen {
        bool dtype = false;
        bool shape = false;
        bool offsets = false;
    };

    std::uint64_t data_begin_;
    std::uint64_t data_bytes_;
    const std::string& path_;
    SafetensorsHeader header_;
    Place place_ = Place::begin;
    std::string name_;
    std::string metadata_key_;
    bool seen_metadata_ = false;
    Seen seen_;
    TensorEntry entry_;
    std::array<std::uint64_t, 2> offsets_{};
    std::size_t offset_count_ = 0;
    int depth_ = 0;
};

void check_text(std::string_view what, std::string_view text) {
    if (find_invalid_utf8(text)) {
        throw ValueError(fmt::format("write_safetensors: {} {} is not UTF-8", what, in_quotes(text)));
    }
}

void check_names(const std::vector<TensorEntry>& entries) {
    std::vector<std::string_view> names;
    names.reserve(entries.size());
    for (const TensorEntry& entry : entries) {
        check_text("tensor name", entry.name);
        if (entry.name.empty() || entry.name == kMetadataName ||
            std::ranges::any_of(entry.name, is_control)) {
            throw ValueError(fmt::format(
                "write_safetensors: {} cannot name a tensor; names are not empty, not {}, and have no "
                "control characters",
                in_quotes(entry.name), kMetadataName));
        }
        names.push_back(entry.name);
    }
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) {
        throw ValueError(fmt::format("write_safetensors: the name {} is given twice", in_quotes(*twice)));
    }
}

std::string json_string(const std::string& text) {
    return nlohmann::json(text).dump();
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t file_size,
                                           const std::string& path) {
    const auto fail = [&](const std::string& why) {
        throw IoError(fmt::format("safetensors file '{}': {}", path, why));
    };
    if (const auto at = find_invalid_utf8(text)) {
        fail(fmt::format("the header is not UTF-8 at byte {}", 8 + *at));
    }
    // The JSON parser would take a zero byte for the end of the text, and would skip a byte-order mark.
    if (const auto at = text.find('\0'); at != std::string_view::npos) {
        fail(fmt::format("the header is not valid JSON at byte {}", 8 + at));
    }
    if (!text.starts_with('{')) {
        fail("the header is not a JSON object: this is no safetensors file, or it is damaged");
    }
    HeaderReader reader(8 + text.size(), file_size, path);
    nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
    return reader.take();
}

std::string format_safetensors_header(std::vector<TensorEntry>& entries, const Metadata& metadata) {
    check_names(entries);
    std::vector<std::size_t> order(entries.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater{},
                             [&](std::size_t i) { return size_of(entries[i].dtype); });
    std::uint64_t bytes = 0;
    for (const std::size_t i : order) {
        entries[i].begin = bytes;
        entries[i].bytes =
            static_cast<std::uint64_t>(element_count(entries[i].shape)) * size_of(entries[i].dtype);
        bytes += entries[i].bytes;
    }

    std::string text(8, '\0');
    const char* separator = "{";
    if (!metadata.empty()) {
        text += fmt::format("{{\"{}\":", kMetadataName);
        for (const auto& [key, value] : metadata) {
            check_text("metadata key", key);
            check_text("metadata value", value);
            text += fmt::format("{}{}:{}", separator, json_string(key), json_string(value));
            separator = ",";
        }
        text += "}";
        separator = ",";
    }
    for (const TensorEntry& entry : entries) {
        text += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", separator,
                            json_string(entry.name), format_name(entry.dtype), fmt::join(entry.shape, ","),
                            entry.begin, entry.begin + entry.bytes);
        separator = ",";
    }
    if (metadata.empty() && entries.empty()) text += "{";
    text += "}";
    text.append((8 - text.size() % 8) % 8, ' ');

    const std::uint64_t length = text.size() - 8;
    if (length > kLargestHeader) {
        throw ValueError(fmt::format("write_safetensors: the header has {} bytes; readers accept {} at most",
                                     length, kLargestHeader));
    }
    std::memcpy(text.data(), &length, sizeof length);
    for (TensorEntry& entry : entries)
        entry.begin += text.size();
    return text;
}

}  // namespace fulcrum::nn
