#include "nn/safetensors.h"

#include "core/allocator.h"
#include "core/error.h"
#include "core/ops/shape.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <sstream>

using namespace fulcrum;
using namespace fulcrum::nn;
using namespace fulcrum::test;

namespace {

namespace fs = std::filesystem;

/// A file of the format: length, header, data.
std::string make_file(const std::string& header, const std::string& data = "") {
    const std::uint64_t length = header.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    return file + header + data;
}

template <class T>
std::string raw(std::initializer_list<T> values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    std::memcpy(bytes.data(), values.begin(), bytes.size());
    return bytes;
}

/// A header of these descriptions.
std::string header_of(const std::vector<std::string>& tensors) {
    return fmt::format("{{{}}}", fmt::join(tensors, ","));
}

/// The elements' bytes in row-major order.
std::string elements(const Tensor& tensor) {
    const Tensor dense = tensor.contiguous();
    if (dense.numel() == 0) return {};
    return {static_cast<const char*>(dense.raw_data()),
            static_cast<std::size_t>(dense.numel()) * size_of(dense.dtype())};
}

void check_same(const StateDict& a, const StateDict& b) {
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        INFO("tensor " << a[i].first);
        CHECK(a[i].first == b[i].first);
        CHECK(a[i].second.dtype() == b[i].second.dtype());
        CHECK(a[i].second.shape() == b[i].second.shape());
        CHECK((elements(a[i].second) == elements(b[i].second)));
    }
}

/// Why a file of these bytes is refused; nothing when it is read. Fails the test for any other exception.
std::optional<std::string> refusal(const TempFolder& folder, const std::string& bytes) {
    const fs::path path = folder / "case.safetensors";
    spit(path, bytes);
    try {
        read_safetensors(path);
    } catch (const IoError& error) {
        const std::string said = error.what();
        CHECK(said.find("case.safetensors") != std::string::npos);
        CHECK(said.find('\n') == std::string::npos);
        return said;
    }
    return std::nullopt;
}

/// A description of one tensor, as it stands in a header.
std::string tensor_text(const std::string& name, const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

/// Tensors of every type and of every kind of shape and order in memory.
StateDict varied_tensors() {
    Generator generator(7);
    StateDict tensors;
    tensors.emplace_back("bytes", tensor<std::uint8_t>({0, 1, 255}, {3}));
    tensors.emplace_back("nothing", zeros({0, 5}));
    tensors.emplace_back("scalar", tensor<float>({2.5F}, {}));
    tensors.emplace_back("brain", normal({3, 5}, 0, 1, {.dtype = DType::bf16}, generator));
    tensors.emplace_back("half", normal({7}, 0, 1, {.dtype = DType::f16}, generator));
    tensors.emplace_back("double", tensor<double>({0.1, -0.0, std::numeric_limits<double>::infinity(),
                                                   std::numeric_limits<double>::denorm_min()},
                                                  {2, 2}));
    tensors.emplace_back("long", tensor<std::int64_t>({-1, std::int64_t{1} << 40}, {2, 1}));
    tensors.emplace_back("int", tensor<std::int32_t>({-2147483647, 5, 0}, {1, 3}));
    tensors.emplace_back("taps", normal({4, 3, 3, 2}, 0, 1, {.format = MemoryFormat::tap_major}, generator));
    tensors.emplace_back("images",
                         normal({2, 3, 4, 5}, 0, 1, {.format = MemoryFormat::channels_last}, generator));
    tensors.emplace_back("turned", transpose(normal({4, 6}, 0, 1, {}, generator), 0, 1));
    tensors.emplace_back("quiet NaN \xc3\xa9\"\\",
                         tensor<float>({std::numeric_limits<float>::quiet_NaN()}, {1}));
    tensors.emplace_back("eight", ones({1, 2, 1, 2, 1, 2, 1, 2}));
    tensors.emplace_back("last.nothing", zeros({3, 0}, {.dtype = DType::u8}));
    return tensors;
}

}  // namespace

TEST_CASE("tensors of every type, shape and memory order survive a round trip bit for bit", "[safetensors]") {
    const TempFolder folder;
    const StateDict tensors = varied_tensors();
    const Metadata metadata{{"format", "pt"}, {"note", "two\nlines, \"quoted\", \xe2\x82\xac"}, {"", ""}};
    write_safetensors(folder / "a", tensors, metadata);
    const Safetensors content = read_safetensors(folder / "a");
    check_same(tensors, content.tensors);
    CHECK(content.metadata == metadata);
    for (const auto& [name, tensor] : content.tensors)
        CHECK(tensor.is_contiguous());

    write_safetensors(folder / "b", content.tensors, content.metadata);
    CHECK((slurp(folder / "a") == slurp(folder / "b")));
    CHECK(folder.names() == std::vector<std::string>{"a", "b"});
}

TEST_CASE("tensors that record gradients are saved as values", "[safetensors]") {
    const TempFolder folder;
    const Tensor leaf = full({2, 2}, 3.0).set_requires_grad();
    const Tensor turned = transpose(leaf, 0, 1);
    write_safetensors(folder / "a", StateDict{{"leaf", leaf}, {"turned", turned}});
    const Safetensors content = read_safetensors(folder / "a");
    check_same({{"leaf", leaf.detach()}, {"turned", turned.detach()}}, content.tensors);
    CHECK_FALSE(content.tensors[0].second.requires_grad());
}

TEST_CASE("the written layout is padded, aligned and told by the header alone", "[safetensors]") {
    const TempFolder folder;
    write_safetensors(folder / "a", varied_tensors(), {{"k", "v"}});
    const SafetensorsFile file(folder / "a");
    std::uint64_t data_begin = ~std::uint64_t{0};
    for (const TensorEntry& entry : file.entries()) {
        INFO("tensor " << entry.name);
        CHECK(entry.begin % size_of(entry.dtype) == 0);
        data_begin = std::min(data_begin, entry.begin);
    }
    CHECK(data_begin % 8 == 0);
    CHECK(slurp(folder / "a")[8] == '{');
    REQUIRE(file.find("scalar") != nullptr);
    CHECK(file.find("scalar")->shape.empty());
    CHECK(file.read(*file.find("scalar")).item() == 2.5);
    CHECK(file.find("absent") == nullptr);

    write_safetensors(folder / "empty", {});
    CHECK(slurp(folder / "empty") == make_file("{}      "));
    write_safetensors(folder / "one", StateDict{{"a", tensor<float>({7}, {1})}}, {{"x", "y"}});
    CHECK(slurp(folder / "one") ==
          make_file(R"({"__metadata__":{"x":"y"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"
                    " ",
                    raw<float>({7})));
}

TEST_CASE("well-formed files of other writers are read", "[safetensors]") {
    const TempFolder folder;
    const auto read = [&](const std::string& header, const std::string& data = "") {
        spit(folder / "case", make_file(header, data));
        return read_safetensors(folder / "case");
    };
    CHECK(read("{}").tensors.empty());
    CHECK(read("{ }\t\r\n ").tensors.empty());
    CHECK(read(R"({"__metadata__":{}})").metadata.empty());

    // Names escaped, fields in any order and of later versions, data in another order than the header, and
    // not aligned.
    const Safetensors content = read(
        R"({"u\u00e9":{"data_offsets":[1,5],"later":[{"x":[1,{}]},null],"shape":[],"dtype":"F32"},)"
        R"("__metadata__":{"a":"b"},"later":{"dtype":"U8","more":1.5,"shape":[1],"data_offsets":[0,1]}})",
        "\x05" + raw<float>({-3}));
    REQUIRE(content.tensors.size() == 2);
    CHECK(content.tensors[0].first == "u\xc3\xa9");
    CHECK(content.tensors[0].second.item() == -3.0);
    CHECK(content.tensors[1].second.item() == 5.0);
    CHECK(content.metadata == Metadata{{"a", "b"}});

    const Safetensors with_empty =
        read(header_of({tensor_text("e", "F32", "[0,5]", "[0,0]"), tensor_text("a", "F32", "[2]", "[0,8]")}),
             raw<float>({1.5F, -2}));
    CHECK(with_empty.tensors[0].second.shape() == Shape{0, 5});
    CHECK(with_empty.tensors[1].second.to_vector<float>() == std::vector<float>{1.5F, -2});
}

TEST_CASE("malformed files are refused with the tensor and the cause", "[safetensors]") {
    struct Case {
        const char* kind;
        std::string bytes;
        const char* cause;
    };
    const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets,
                        std::size_t data) {
        return make_file(header_of({tensor_text("a", dtype, shape, offsets)}), std::string(data, '\0'));
    };
    const auto two = [](const std::string& first, const std::string& second, std::size_t data) {
        return make_file(
            header_of({tensor_text("a", "U8", "[4]", first), tensor_text("b", "U8", "[4]", second)}),
            std::string(data, '\0'));
    };
    const auto entry = [](const std::string& fields) {
        return make_file(fmt::format(R"({{"a":{{{}}}}})", fields), "0123");
    };
    const std::string good = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
    std::string huge = make_file("{}");
    huge[7] = '\x7f';
    std::string capped(200, ' ');
    const std::uint64_t beyond_cap = 100'000'001;
    std::memcpy(capped.data(), &beyond_cap, 8);

    const std::vector<Case> cases{
        {"no bytes", "", "0 bytes are too few"},
        {"half a length", "\x02\0\0", "too few"},
        {"header length 0", make_file(""), "not a JSON object"},
        {"header beyond the end", make_file("{}").substr(0, 9), "cut short"},
        {"header of 2^63 bytes", huge, "cut short"},
        {"header beyond the end and the cap", capped, "cut short"},
        {"not UTF-8", make_file("{\"a\xff\xfe\":{}}"), "not UTF-8 at byte 11"},
        {"overlong UTF-8", make_file("{\"\xc0\xaf\":{}}"), "not UTF-8"},
        {"a surrogate in UTF-8", make_file("{\"\xed\xa0\x80\":{}}"), "not UTF-8"},
        {"cut UTF-8", make_file("{\"\xe2\x82"), "not UTF-8"},
        {"byte-order mark", make_file("\xef\xbb\xbf{}"), "not a JSON object"},
        {"leading space", make_file(" {}"), "not a JSON object"},
        {"not JSON", make_file("{hello}"), "not valid JSON"},
        {"cut JSON", make_file("{\"a\":{"), "not valid JSON"},
        {"two objects", make_file("{}{}"), "not valid JSON"},
        {"a zero byte hides the rest", make_file(std::string("{}\0{", 4)), "not valid JSON"},
        {"a comma too many", make_file("{\"__metadata__\":{},}"), "not valid JSON"},
        {"a lone surrogate", make_file(R"({"\ud800":{}})"), "not valid JSON"},
        {"top-level array", make_file("[]"), "not a JSON object"},
        {"top-level null", make_file("null"), "not a JSON object"},
        {"description is no object", make_file(R"({"a":[]})"), "'a': its description is an array"},
        {"description is a number", make_file(R"({"a":1})"), "'a': its description is a number"},
        {"description is null", make_file(R"({"a":null})"), "'a': its description is null"},
        {"empty description", make_file(R"({"a":{}})"), "'a': dtype is missing"},
        {"dtype missing", entry(R"("shape":[1],"data_offsets":[0,4])"), "'a': dtype is missing"},
        {"shape missing", entry(R"("dtype":"F32","data_offsets":[0,4])"), "'a': shape is missing"},
        {"offsets missing", entry(R"("dtype":"F32","shape":[1])"), "'a': data_offsets is missing"},
        {"dtype twice", entry(good + R"(,"dtype":"F32")"), "'a': dtype is there twice"},
        {"shape twice", entry(good + R"(,"shape":[1])"), "'a': shape is there twice"},
        {"offsets twice", entry(good + R"(,"data_offsets":[0,4])"), "'a': data_offsets is there twice"},
        {"dtype is no string", entry(R"("dtype":32)"), "'a': dtype is a number"},
        {"dtype is an object", entry(R"("dtype":{})"), "'a': dtype is an object"},
        {"unknown dtype", one("Q4_K", "[4]", "[0,16]", 16), "'a': dtype 'Q4_K' is not supported"},
        {"dtype of the format that tensors lack", one("BOOL", "[4]", "[0,4]", 4), "'a': dtype 'BOOL'"},
        {"dtype in small letters", one("f32", "[1]", "[0,4]", 4), "'a': dtype 'f32'"},
        {"shape is a number", entry(R"("dtype":"F32","shape":4)"), "'a': shape is a number"},
        {"shape is a string", entry(R"("dtype":"F32","shape":"4")"), "'a': shape is a string"},
        {"nested shape", one("F32", "[[1]]", "[0,4]", 4), "'a': shape holds an array"},
        {"negative size", one("F32", "[-1,4]", "[0,16]", 16), "'a': shape holds the negative number -1"},
        {"two negative sizes", one("F32", "[-2,-2]", "[0,16]", 16), "'a': shape holds the negative number"},
        {"minus zero", one("F32", "[-0]", "[0,0]", 0), "'a': shape holds the negative number"},
        {"fractional size", one("F32", "[2.5]", "[0,10]", 10), "'a': shape holds the number '2.5'"},
        {"size with exponent", one("F32", "[1e0]", "[0,4]", 4), "'a': shape holds the number '1e0'"},
        {"size beyond 64 bits", one("F32", "[18446744073709551616]", "[0,0]", 0), "too large"},
        {"size beyond 63 bits", one("U8", "[9223372036854775808]", "[0,0]", 0), "too large"},
        {"nine dimensions", one("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]", 1), "'a': more than 8 dimensions"},
        {"product wraps to 0", one("F32", "[4294967296,4294967296]", "[0,0]", 0), "'a': shape "},
        {"bytes wrap to 16", one("F32", "[4611686018427387908]", "[0,16]", 16), "overflows"},
        {"zero hides an overflow", one("F32", "[4294967296,4294967296,0]", "[0,0]", 0), "overflows"},
        {"shape larger than the bytes", one("F32", "[1000,1000]", "[0,4]", 4),
         "'a': shape [1000, 1000] of F32 needs 4000000 bytes but data_offsets [0, 4] hold 4"},
        {"shape smaller than the bytes", one("F32", "[1]", "[0,8]", 8), "needs 4 bytes"},
        {"offsets reversed", one("F32", "[6]", "[24,0]", 24), "'a': data_offsets [24, 0] end before"},
        {"offsets beyond the data", one("F32", "[4]", "[0,16]", 12), "reach beyond the 12 bytes"},
        {"offsets at the edge of 64 bits", one("U8", "[1]", "[18446744073709551614,18446744073709551615]", 4),
         "reach beyond"},
        {"one offset", one("F32", "[1]", "[4]", 4), "'a': data_offsets has one number or none"},
        {"three offsets", one("F32", "[1]", "[0,4,4]", 4), "'a': data_offsets has more than two"},
        {"fractional offset", one("F32", "[1]", "[0,4.0]", 4), "'a': data_offsets holds the number"},
        {"negative offset", one("F32", "[1]", "[-4,0]", 4), "'a': data_offsets holds the negative"},
        {"offsets as text", one("F32", "[1]", R"(["0","4"])", 4), "'a': data_offsets holds a string"},
        {"overlap", two("[0,4]", "[2,6]", 6), "'b': its bytes overlap"},
        {"same bytes twice", two("[0,4]", "[0,4]", 4), "overlap"},
        {"hole", two("[0,4]", "[5,9]", 9), "'b': 1 bytes before it belong to no tensor"},
        {"hole in front", one("U8", "[4]", "[2,6]", 6), "'a': 2 bytes before it"},
        {"bytes behind", one("U8", "[4]", "[0,4]", 7), "3 bytes at the end belong to no tensor"},
        {"data without tensors", make_file("{}", "x"), "1 bytes at the end"},
        {"empty tensor inside another",
         make_file(
             header_of({tensor_text("a", "U8", "[4]", "[0,4]"), tensor_text("e", "U8", "[0]", "[2,2]")}),
             "0123"),
         "'e': its bytes overlap"},
        {"name twice",
         make_file(
             header_of({tensor_text("a", "U8", "[2]", "[0,2]"), tensor_text("a", "U8", "[2]", "[2,4]")}),
             "0123"),
         "tensor 'a' is there twice"},
        {"name twice in disguise",
         make_file(header_of({tensor_text("a", "U8", "[2]", "[0,2]"),
                              tensor_text("\\u0061", "U8", "[2]", "[2,4]")}),
                   "0123"),
         "tensor 'a' is there twice"},
        {"empty name", make_file(header_of({tensor_text("", "U8", "[0]", "[0,0]")})), "empty name"},
        {"control character in a name",
         make_file(header_of({tensor_text("a\\u001b[2J", "U8", "[0]", "[0,0]")})),
         "'a?[2J' has control characters"},
        {"metadata is an array", make_file(R"({"__metadata__":["x"]})"), "__metadata__ is an array"},
        {"metadata is a string", make_file(R"({"__metadata__":"x"})"), "__metadata__ is a string"},
        {"metadata holds a number", make_file(R"({"__metadata__":{"x":1}})"),
         "__metadata__ key 'x' is a number"},
        {"metadata holds an object", make_file(R"({"__metadata__":{"x":{}}})"), "key 'x' is an object"},
        {"metadata key twice", make_file(R"({"__metadata__":{"x":"1","x":"2"}})"), "the key 'x' twice"},
        {"metadata twice", make_file(R"({"__metadata__":{},"__metadata__":{}})"),
         "__metadata__ is there twice"},
        {"deep nesting", make_file(R"({"a":{"x":)" + std::string(100000, '[')), "nested too deeply"},
        {"deep nesting of objects", make_file(R"({"a":)" + std::string(100000, '{')), "not valid JSON"},
    };
    const TempFolder folder;
    for (const Case& c : cases) {
        INFO(c.kind);
        const std::optional<std::string> said = refusal(folder, c.bytes);
        REQUIRE(said.has_value());
        INFO(*said);
        CHECK(said->find(c.cause) != std::string::npos);
    }
}

TEST_CASE("a header of more than 100 MB is refused before it is read", "[safetensors]") {
    const TempFolder folder;
    const std::uint64_t length = 100'000'001;
    std::string start(8, '\0');
    std::memcpy(start.data(), &length, 8);
    spit(folder / "big", start + "{");
    fs::resize_file(folder / "big", 8 + length);  // a hole: takes no space on the disk
    try {
        read_safetensors(folder / "big");
        FAIL("accepted");
    } catch (const IoError& error) {
        CHECK(std::string(error.what()).find("100000000 are the most") != std::string::npos);
    }
}

TEST_CASE("what is no file is refused", "[safetensors]") {
    const TempFolder folder;
    CHECK_THROWS_AS(read_safetensors(folder.path()), IoError);
    CHECK_THROWS_AS(read_safetensors(folder / "absent"), IoError);
}

TEST_CASE("a file cut short or grown anywhere is refused", "[safetensors]") {
    const TempFolder folder;
    write_safetensors(folder / "a", varied_tensors(), {{"format", "pt"}});
    const std::string bytes = slurp(folder / "a");
    for (std::size_t length = 0; length < bytes.size(); length += length < 200 ? 1 : 64) {
        INFO("cut to " << length << " of " << bytes.size());
        CHECK(refusal(folder, bytes.substr(0, length)).has_value());
    }
    CHECK(refusal(folder, bytes.substr(0, bytes.size() - 1)).has_value());
    CHECK(refusal(folder, bytes + '\0').has_value());
    CHECK_FALSE(refusal(folder, bytes).has_value());
}

TEST_CASE("no single flipped bit makes the reader do anything but read or refuse", "[safetensors]") {
    const TempFolder folder;
    const fs::path path = folder / "a";
    write_safetensors(path,
                      StateDict{{"a", ones({2, 3})},
                                {"b", tensor<std::int64_t>({5}, {})},
                                {"c", zeros({0, 2}, {.dtype = DType::u8})}},
                      {{"format", "pt"}});
    const std::string bytes = slurp(path);
    const std::size_t data_begin = SafetensorsFile(path).find("b")->begin;
    std::size_t refused = 0;
    std::size_t wrong = 0;
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        poke(path, bit / 8, static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8))));
        bool is_refused = false;
        try {
            read_safetensors(path);
        } catch (const IoError&) {
            is_refused = true;
        }
        poke(path, bit / 8, bytes[bit / 8]);
        refused += is_refused ? 1 : 0;
        // A changed length is always refused, changed elements never.
        wrong += (bit < 64 && !is_refused) || (bit >= 8 * data_begin && is_refused) ? 1 : 0;
    }
    CHECK(wrong == 0);
    CHECK(refused > 4 * data_begin);
    CHECK(slurp(path) == bytes);
}

TEST_CASE("claims of a small file never cost memory", "[safetensors]") {
    const TempFolder folder;
    reset_peak_memory();
    const std::size_t before = memory_stats().peak;
    for (const char* shape : {"[1000000000]", "[1000000,1000000]", "[9223372036854775807]"}) {
        CHECK(refusal(folder, make_file(header_of({tensor_text("a", "U8", shape, "[0,4]")}), "0123"))
                  .has_value());
        CHECK(refusal(folder, make_file(header_of({tensor_text("a", "U8", shape, "[0,9223372036854775807]")}),
                                        "0123"))
                  .has_value());
    }
    CHECK(memory_stats().peak == before);
}

TEST_CASE("names and texts that no file can hold are refused before anything is written", "[safetensors]") {
    const TempFolder folder;
    const Tensor one = ones({1});
    const auto refuse = [&](const StateDict& tensors, const Metadata& metadata = {}) {
        CHECK_THROWS_AS(write_safetensors(folder / "out", tensors, metadata), ValueError);
    };
    refuse({{"", one}});
    refuse({{"__metadata__", one}});
    refuse({{"a", one}, {"b", one}, {"a", one}});
    refuse({{"a\n", one}});
    refuse({{std::string("a\0b", 3), one}});
    refuse({{"a\xff", one}});
    refuse({{"a", Tensor()}});
    refuse({{"a", one}}, {{"k", "\xff"}});
    refuse({{"a", one}}, {{"\xff", "v"}});
    CHECK(folder.names().empty());
}

TEST_CASE("the handed malformed files get what is expected of them", "[safetensors]") {
    const char* chosen = std::getenv("FULCRUM_SHARED");
    const fs::path shared = chosen != nullptr
                                ? fs::path(chosen)
                                : fs::path(FULCRUM_TESTS_DIR).parent_path().parent_path() / "shared";
    const fs::path folder = shared / "cases" / "malformed";
    if (!fs::exists(folder / "expected.tsv")) {
        WARN("skipped: no folder of shared cases beside the repository (set FULCRUM_SHARED to name it)");
        return;
    }
    // What each refusal must name.
    const std::map<std::string, std::string> causes{
        {"s02_header_len_0", "not a JSON object"},
        {"s08_invalid_utf8", "not UTF-8"},
        {"s11_offsets_reversed", "'a': data_offsets [24, 0] end before"},
        {"s16_out_of_range", "'a': data_offsets [0, 16] reach beyond the 12 bytes"},
        {"s17_shape_wraps_to_zero", "'a': shape [4294967296, 4294967296]"},
        {"s18_shape_bytes_wrap_to_16", "'a': shape [4611686018427387908]"},
        {"s20_negative_dim", "'a': shape holds the negative number -1"},
        {"s21_two_negative_dims", "'a': shape holds the negative number -2"},
        {"s22_fractional_dim", "'a': shape holds the number '2.5'"},
        {"s23_unknown_dtype", "'a': dtype 'Q4_K'"},
        {"s34_metadata_not_object", "__metadata__ is an array"},
        {"s35_shape_offsets_mismatch", "'a': shape [1000, 1000] of F32 needs 4000000 bytes"},
        {"s39_top_level_array", "not a JSON object"},
    };
    std::istringstream table(slurp(folder / "expected.tsv"));
    std::size_t seen = 0;
    for (std::string line; std::getline(table, line);) {
        const std::string file = line.substr(0, line.find('\t'));
        if (!file.starts_with("safetensors/")) continue;
        ++seen;
        const std::string verdict = line.substr(file.size() + 1, 6);
        INFO(line);
        if (verdict == "accept") {
            const Safetensors content = read_safetensors(folder / file);
            const TempFolder copies;
            write_safetensors(copies / "copy", content.tensors, content.metadata);
            const Safetensors again = read_safetensors(copies / "copy");
            check_same(content.tensors, again.tensors);
            CHECK(content.metadata == again.metadata);
        } else {
            REQUIRE(verdict == "reject");
            std::string said;
            try {
                read_safetensors(folder / file);
            } catch (const IoError& error) {
                said = error.what();
            }
            INFO(said);
            CHECK(said.find(file) != std::string::npos);
            const auto cause = causes.find(fs::path(file).stem().string());
            if (cause != causes.end()) CHECK(said.find(cause->second) != std::string::npos);
        }
    }
    CHECK(seen >= 19);

    const auto read = [&](const char* file) { return read_safetensors(folder / "safetensors" / file); };
    const Safetensors basic = read("s01_valid_basic.safetensors");
    check_same(basic.tensors, {{"a", tensor<float>({0, 1, 2, 3, 4, 5}, {2, 3})},
                               {"b", tensor<std::int64_t>({-1, 1099511627776}, {2})}});
    CHECK(basic.metadata == Metadata{{"format", "pt"}});
    CHECK(read("s27_empty_list.safetensors").tensors.empty());
    const NamedTensor pair{"a", tensor<float>({1.5F, -2}, {2})};
    check_same(read("s29_zero_size_tensor.safetensors").tensors, {{"e", zeros({0, 5})}, pair});
    check_same(read("s30_zero_size_at_end.safetensors").tensors, {pair, {"e", zeros({3, 0})}});
    check_same(read("s31_scalar_0d.safetensors").tensors, {{"t", scalar(2.5)}});
    check_same(read("s42_trailing_spaces.safetensors").tensors, {{"a", tensor<float>({7}, {1})}});
}
