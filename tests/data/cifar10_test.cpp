#include "data/cifar10.h"

#include "core/error.h"
#include "data/synthetic.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace fulcrum::data {

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

/// One record whose pixels count up from `first`.
std::string record(int label, int first) {
    std::string bytes(1, static_cast<char>(label));
    for (int i = 0; i < 3072; ++i)
        bytes.push_back(static_cast<char>((first + i) % 256));
    return bytes;
}

/// Two records per file, whose first pixels tell the file and the place.
void write_tiny_set(const fs::path& folder) {
    fs::create_directories(folder);
    int first = 0;
    for (const std::string_view name : kCifar10TrainFiles) {
        test::spit(folder / name, record(first % 10, first) + record((first + 1) % 10, first + 1));
        first += 2;
    }
    test::spit(folder / kCifar10TestFile, record(3, 100) + record(4, 101));
}

ImageDataset parse(const std::string& bytes) {
    return parse_cifar10(test::bytes_of(bytes), "file.bin");
}

/// What `action` complains of; fails when it does not throw an IoError.
template <class Action>
std::string complaint(Action&& action) {
    try {
        action();
    } catch (const IoError& error) {
        return error.what();
    }
    FAIL("nothing was refused");
    return "";
}

/// The folder of shared cases, or an empty path where it is absent.
fs::path shared_cases() {
    const char* set = std::getenv("FULCRUM_SHARED");
    const fs::path shared =
        set != nullptr ? fs::path(set) : fs::path(FULCRUM_TESTS_DIR).parent_path().parent_path() / "shared";
    const fs::path cases = shared / "cases" / "malformed" / "cifar10";
    return fs::is_directory(cases) ? cases : fs::path();
}

}  // namespace

TEST_CASE("records become planar images and labels in file order") {
    const ImageDataset set = parse(record(7, 5) + record(0, 9));
    CHECK(set.name == "cifar10");
    CHECK_FALSE(set.synthetic);
    CHECK(set.class_names == cifar10_class_names());
    CHECK_NOTHROW(set.check());
    CHECK(set.labels.to_vector<std::int64_t>() == std::vector<std::int64_t>{7, 0});
    REQUIRE(set.images.shape() == Shape{2, 3, 32, 32});
    const auto* pixels = set.images.data<std::uint8_t>();
    bool equal = true;
    for (int i = 0; i < 3072; ++i) {
        equal = equal && pixels[i] == (5 + i) % 256 && pixels[3072 + i] == (9 + i) % 256;
    }
    CHECK(equal);
}

TEST_CASE("a file without whole records is refused") {
    CHECK_THAT(complaint([] { parse(""); }), ContainsSubstring("file.bin is empty: no records"));
    CHECK_THAT(complaint([] { parse("x"); }), ContainsSubstring("file.bin has 1 bytes"));
    CHECK_THAT(complaint([] { parse((record(1, 0) + record(2, 0)).substr(0, 6145)); }),
               ContainsSubstring("file.bin has 6145 bytes, no multiple of 3073"));
    CHECK_THAT(complaint([] { parse(record(1, 0) + "\n"); }), ContainsSubstring("has 3074 bytes"));
    CHECK_THAT(complaint([] { parse("x"); }), ContainsSubstring("data/download.sh"));
    CHECK_THAT(complaint([] { parse("x"); }), ContainsSubstring("--data synthetic"));
}

TEST_CASE("a label beyond the classes is refused with its place") {
    CHECK_THAT(complaint([] { parse(record(10, 0)); }),
               ContainsSubstring("file.bin: record 0 has label 10, outside 0..9"));
    CHECK_THAT(complaint([] { parse(record(9, 0) + record(0, 0) + record(255, 0)); }),
               ContainsSubstring("record 2 has label 255"));
    // Beyond the first piece that the file reader takes at once.
    const test::TempFolder folder;
    std::string many;
    for (int i = 0; i < 600; ++i)
        many += record(i == 555 ? 77 : i % 10, i);
    test::spit(folder / "many.bin", many);
    CHECK_THAT(complaint([&] { read_cifar10_file(folder / "many.bin"); }),
               ContainsSubstring("record 555 has label 77"));
}

TEST_CASE("what is no record file at all is recognised") {
    const std::string page(500, ' ');
    CHECK_THAT(complaint([] { parse("\x1f\x8b\x08 packed"); }), ContainsSubstring("gzip"));
    CHECK_THAT(complaint([] { parse("PK\x03\x04 packed"); }), ContainsSubstring("zip archive"));
    CHECK_THAT(complaint([&] { parse(page.substr(0, 257) + "ustar" + page); }),
               ContainsSubstring("tar archive"));
    CHECK_THAT(complaint([&] { parse("\n <!DOCTYPE html>" + page); }), ContainsSubstring("HTML page"));
    CHECK_THAT(complaint([&] { parse("<html><body>404" + page); }), ContainsSubstring("HTML page"));
    CHECK_THAT(complaint([] { parse("\x80\x02}q\x01("); }), ContainsSubstring("Python version"));
    // Also when the length happens to be that of whole records.
    std::string whole = "<html>" + page;
    whole.resize(3073, ' ');
    CHECK_THAT(complaint([&] { parse(whole); }), ContainsSubstring("HTML page"));
}

TEST_CASE("a data file must be a regular file that can be read") {
    const test::TempFolder folder;
    fs::create_directory(folder / "data_batch_1.bin");
    CHECK_THAT(complaint([&] { read_cifar10_file(folder / "data_batch_1.bin"); }),
               ContainsSubstring("data_batch_1.bin"));
    CHECK_THAT(complaint([&] { read_cifar10_file(folder / "missing.bin"); }),
               ContainsSubstring("missing.bin"));
    test::spit(folder / "good.bin", record(1, 2));
    CHECK(read_cifar10_file(folder / "good.bin").count() == 1);
}

TEST_CASE("a set is read from its folder and from the folder above") {
    const test::TempFolder folder;
    write_tiny_set(folder.path() / kCifar10Folder);
    for (const fs::path& dir : {folder.path(), folder.path() / kCifar10Folder}) {
        const DatasetPair data = load_cifar10(dir);
        CHECK(data.train.count() == 10);
        CHECK(data.test.count() == 2);
        CHECK(data.train.name == "cifar10");
        CHECK(data.test.name == "cifar10");
        CHECK(data.train.labels.to_vector<std::int64_t>() ==
              std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
        CHECK(data.test.labels.to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 4});
        const auto* pixels = data.train.images.data<std::uint8_t>();
        for (int i = 0; i < 10; ++i)
            CHECK(pixels[i * 3072] == i);
        CHECK(data.test.images.data<std::uint8_t>()[3072] == 101);
    }
}

TEST_CASE("missing files are named together with the way out") {
    const test::TempFolder folder;
    write_tiny_set(folder.path());
    fs::remove(folder / "data_batch_2.bin");
    fs::remove(folder / "data_batch_5.bin");
    const std::string message = complaint([&] { load_cifar10(folder.path()); });
    CHECK_THAT(message, ContainsSubstring("lacks data_batch_2.bin, data_batch_5.bin;"));
    CHECK_THAT(message, ContainsSubstring("data/download.sh"));
    CHECK_THAT(message, ContainsSubstring("--data synthetic"));
}

TEST_CASE("a folder without the set is refused with the reason") {
    const test::TempFolder folder;
    CHECK_THAT(complaint([&] { load_cifar10(folder / "nowhere"); }), ContainsSubstring("there is no folder"));
    CHECK_THAT(complaint([&] { load_cifar10(folder.path()); }), ContainsSubstring("neither"));
    test::spit(folder / "cifar-10-binary.tar.gz", "\x1f\x8b");
    CHECK_THAT(complaint([&] { load_cifar10(folder / "cifar-10-binary.tar.gz"); }),
               ContainsSubstring("is no folder"));
    fs::create_directory(folder / "cifar-10-batches-py");
    CHECK_THAT(complaint([&] { load_cifar10(folder.path()); }), ContainsSubstring("Python version"));
}

TEST_CASE("one bad file among the six is named") {
    const test::TempFolder folder;
    write_tiny_set(folder.path());
    SECTION("cut short") {
        test::spit(folder / "data_batch_4.bin", record(1, 1).substr(0, 3000));
        CHECK_THAT(complaint([&] { load_cifar10(folder.path()); }),
                   ContainsSubstring("data_batch_4.bin has 3000 bytes"));
    }
    SECTION("a wrong label") {
        test::spit(folder / "test_batch.bin", record(1, 1) + record(10, 1));
        CHECK_THAT(complaint([&] { load_cifar10(folder.path()); }),
                   ContainsSubstring("test_batch.bin: record 1 has label 10"));
    }
    SECTION("more records than the layout has, told before they are read") {
        fs::resize_file(folder / "data_batch_3.bin", 3073ULL * 10'001);
        CHECK_THAT(complaint([&] { load_cifar10(folder.path()); }),
                   ContainsSubstring("data_batch_3.bin holds 10001 records"));
    }
    SECTION("a folder") {
        fs::remove(folder / "data_batch_1.bin");
        fs::create_directory(folder / "data_batch_1.bin");
        CHECK_THAT(complaint([&] { load_cifar10(folder.path()); }), ContainsSubstring("data_batch_1.bin"));
    }
}

TEST_CASE("class names come from the names file and tell which set it is") {
    const test::TempFolder folder;
    write_tiny_set(folder.path());
    const fs::path names = folder.path() / kCifar10NamesFile;
    SECTION("the official file with its empty last line") {
        test::spit(names, "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
        CHECK(load_cifar10(folder.path()).train.name == "cifar10");
    }
    SECTION("other names") {
        test::spit(names, "a\r\nb\r\nc\r\nd\r\ne\r\nf\r\ng\r\nh\r\ni\r\nj\r\n");
        const DatasetPair data = load_cifar10(folder.path());
        CHECK(data.train.name == "custom");
        CHECK(data.test.class_names[9] == "j");
    }
    SECTION("too few names") {
        test::spit(names, "a\nb\n");
        CHECK_THAT(complaint([&] { load_cifar10(folder.path()); }), ContainsSubstring("holds 2 lines"));
    }
    SECTION("an empty file") {
        test::spit(names, "");
        CHECK_THAT(complaint([&] { load_cifar10(folder.path()); }), ContainsSubstring("holds 0 lines"));
    }
    SECTION("a file far too long") {
        test::spit(names, std::string(100'000, 'x'));
        CHECK_THAT(complaint([&] { load_cifar10(folder.path()); }), ContainsSubstring("batches.meta.txt"));
    }
}

TEST_CASE("a synthetic set survives the official layout and is never taken for CIFAR-10") {
    const test::TempFolder folder;
    const DatasetPair made = make_synthetic(3, 23, 7);
    write_cifar10(folder / "set", made.train, made.test);
    const DatasetPair read = load_cifar10(folder / "set");
    CHECK(read.train.images.to_vector<std::uint8_t>() == made.train.images.to_vector<std::uint8_t>());
    CHECK(read.test.images.to_vector<std::uint8_t>() == made.test.images.to_vector<std::uint8_t>());
    CHECK(read.train.labels.to_vector<std::int64_t>() == made.train.labels.to_vector<std::int64_t>());
    CHECK(read.test.labels.to_vector<std::int64_t>() == made.test.labels.to_vector<std::int64_t>());
    CHECK(read.train.name == "synthetic");
    CHECK(read.test.name == "synthetic");
    CHECK(read.train.synthetic);
    CHECK(read.train.class_names == synthetic_class_names());
    // The same set may be written again; one with other classes would be lost.
    CHECK_NOTHROW(write_cifar10(folder / "set", made.train, made.test));
    CHECK(fs::file_size(folder / "set/test_batch.bin") == 7 * kCifar10RecordBytes);
}

TEST_CASE("writing never replaces a set with other classes") {
    const test::TempFolder folder;
    write_tiny_set(folder.path());
    const std::string before = test::slurp(folder / "data_batch_1.bin");
    const DatasetPair made = make_synthetic(3, 10, 10);
    CHECK_THAT(complaint([&] { write_cifar10(folder.path(), made.train, made.test); }),
               ContainsSubstring("other class names"));
    CHECK(test::slurp(folder / "data_batch_1.bin") == before);
    CHECK_FALSE(fs::exists(folder.path() / kCifar10NamesFile));
}

TEST_CASE("sets that do not fit the layout are not written") {
    const test::TempFolder folder;
    const DatasetPair made = make_synthetic(3, 10, 10);
    CHECK_THROWS_AS(write_cifar10(folder / "set", made.train.subset(4), made.test), ValueError);
    CHECK_THROWS_AS(write_cifar10(folder / "set", made.train, made.test.subset(0)), ValueError);
    ImageDataset renamed = made.test;
    renamed.class_names[2] = "two\nlines";
    CHECK_THROWS_AS(write_cifar10(folder / "set", made.train, renamed), ValueError);
    CHECK_FALSE(fs::exists(folder / "set"));
    test::spit(folder / "file", "x");
    CHECK_THROWS_AS(write_cifar10(folder / "file/set", made.train, made.test), IoError);
}

TEST_CASE("shared malformed files are refused with their reason") {
    const fs::path cases = shared_cases();
    if (cases.empty()) {
        WARN("skipped: no folder of shared cases beside the repository (set FULCRUM_SHARED to name it)");
        return;
    }
    const std::vector<std::pair<std::string, std::string>> expected{
        {"c02_truncated_mid_record.bin", "has 7646 bytes, no multiple of 3073"},
        {"c05_label_10_first.bin", "record 0 has label 10"},
        {"c08_empty.bin", "no records"},
        {"c09_directory.bin", "c09_directory.bin"},
        {"c10_gzip_of_valid.bin", "gzip-compressed"},
        {"c14_html_page.bin", "HTML page"},
    };
    for (const auto& refused : expected) {
        const std::string message = complaint([&] { read_cifar10_file(cases / refused.first); });
        CHECK_THAT(message, ContainsSubstring(refused.first) && ContainsSubstring(refused.second));
    }
}

}  // namespace fulcrum::data
