#include "nn/trainer.h"

#include "core/autograd.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/dropout.h"
#include "nn/evaluate.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "nn/optim/adam.h"
#include "nn/optim/sgd.h"
#include "nn/sequential.h"
#include "tests/catch.h"
#include "tests/devices.h"
#include "tests/temp_folder.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fulcrum {

namespace {

using Catch::Matchers::ContainsSubstring;
using nn::FitEnd;

constexpr std::int64_t kImages = 22, kBatch = 5, kSteps = 5;  // the last batch has two images

/// Images of random bytes; image i has label i % 10.
data::ImageDataset random_images(std::int64_t count, std::uint64_t seed) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * data::kImageBytes);
    RandomStream stream(seed, 0);
    for (auto& byte : bytes)
        byte = static_cast<std::uint8_t>(stream.below(256));
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < count; ++i)
        labels.push_back(i % 10);
    data::ImageDataset set;
    set.images = from_data<std::uint8_t>(bytes, {count, 3, 32, 32}, {DType::u8});
    set.labels = from_data<std::int64_t>(labels, {count}, {DType::i64});
    set.class_names = std::vector<std::string>(10, "class");
    set.name = "custom";
    return set;
}

data::DataLoader make_loader(const data::ImageDataset& set, std::int64_t batch_size, bool training,
                             std::uint64_t seed = 3, DType dtype = DType::f32) {
    data::LoaderOptions options;
    options.batch_size = batch_size;
    options.shuffle = training;
    options.augment.flip = training;
    options.augment.crop_padding = training ? 4 : 0;
    options.normalization = {{0.5, 0.5, 0.5}, {0.25, 0.25, 0.25}};
    options.seed = seed;
    options.dtype = dtype;
    return {set, options};
}

/// A network with everything that carries state: weights, running statistics, random masks.
std::shared_ptr<nn::Module> make_network(Device device) {
    manual_seed(11);
    auto network = std::make_shared<nn::Sequential>();
    network->push_back(std::make_shared<nn::Flatten>());
    network->push_back(std::make_shared<nn::Linear>(3072, 8));
    network->push_back(std::make_shared<nn::BatchNorm1d>(8));
    network->push_back(std::make_shared<nn::ReLU>());
    network->push_back(std::make_shared<nn::Dropout>(0.25));
    network->push_back(std::make_shared<nn::Linear>(8, 10));
    network->to(device);
    return network;
}

/// A run of its own: network, optimiser, schedule, trainer, loaders.
struct Run {
    explicit Run(Device device, bool adam = false, nn::TrainerOptions options = {0.1, false, true, 0})
        : network(make_network(device)),
          optimizer(adam ? std::unique_ptr<optim::Optimizer>(
                               std::make_unique<optim::Adam>(network->parameters(), optim::AdamOptions{}))
                         : std::make_unique<optim::SGD>(network->parameters(), sgd())),
          trainer(*network, *optimizer, schedule, options) {}

    static optim::SgdOptions sgd() {
        optim::SgdOptions options;
        options.momentum = 0.9;
        options.weight_decay = 1e-3;
        return options;
    }

    /// Every bit that a run leaves: the state's tensors, and the sums reported.
    std::map<std::string, std::vector<double>> bits() const {
        std::map<std::string, std::vector<double>> all = reports;
        for (const auto& [name, tensor] : network->state_dict())
            all["model." + name] = tensor.to_vector<double>();
        for (const auto& [name, tensor] : optimizer->state_dict())
            all["optimizer." + name] = tensor.to_vector<double>();
        const auto state = default_generator().state();
        all["generator"] = {static_cast<double>(state.seed), static_cast<double>(state.next_stream)};
        return all;
    }

    FitEnd fit(nn::FitOptions options) {
        options.on_epoch = [this](const nn::EpochReport& report) {
            reports["epoch " + std::to_string(report.stats.epoch)] = {
                report.stats.train.loss_sum, static_cast<double>(report.stats.train.images),
                static_cast<double>(report.stats.train.correct), report.stats.learning_rate,
                report.test ? report.test->loss_sum : -1.0};
        };
        return trainer.fit(train, &test, options);
    }

    std::shared_ptr<nn::Module> network;
    std::unique_ptr<optim::Optimizer> optimizer;
    optim::OneCycleLR schedule{{.max_lr = 0.05, .total_steps = 2 * kSteps}};
    nn::Trainer trainer;
    data::DataLoader train = make_loader(random_images(kImages, 1), kBatch, true);
    data::DataLoader test = make_loader(random_images(7, 2), 4, false);
    std::map<std::string, std::vector<double>> reports;
};

nn::FitOptions epochs(std::int64_t count) {
    nn::FitOptions options;
    options.epochs = count;
    return options;
}

/// The largest logit is that of the image's brightest pixel among its first ten: an image tells its class.
std::shared_ptr<nn::Module> make_reader(Device device) {
    auto linear = std::make_shared<nn::Linear>(3072, 10);
    {
        const NoGradGuard no_grad;
        std::vector<float> weight(3072 * 10, 0.0F);
        for (std::size_t i = 0; i < 10; ++i)
            weight[i * 3072 + i] = 1.0F;
        linear->load_state_dict({{"weight", from_data<float>(weight, {10, 3072})}, {"bias", zeros({10})}});
    }
    auto network = std::make_shared<nn::Sequential>();
    network->push_back(std::make_shared<nn::Flatten>());
    network->push_back(linear);
    network->to(device);
    return network;
}

}  // namespace

TEST_CASE("Averages are over images, not over batches", "[trainer]") {
    nn::Tally tally;
    tally += {256, 179, 256 * 1.0};
    tally += {256, 205, 256 * 2.0};
    tally += {10, 9, 10 * 4.0};
    CHECK(tally.images == 522);
    CHECK(tally.accuracy() == Catch::Approx(393.0 / 522.0).epsilon(1e-15));
    CHECK(tally.loss() == Catch::Approx(808.0 / 522.0).epsilon(1e-15));
    CHECK(std::isnan(nn::Tally{}.loss()));
    CHECK(std::isnan(nn::Tally{}.accuracy()));
}

TEST_CASE("Evaluation counts each image once, also in a last batch that is not full", "[trainer]") {
    test::for_each_device([](Device device) {
        const auto network = make_reader(device);
        std::vector<std::uint8_t> bytes(5 * data::kImageBytes, 0);
        const std::vector<std::int64_t> labels{3, 1, 4, 1, 5};
        const std::vector<std::size_t> shown{3, 1, 4, 1, 9};  // the last image looks like another class
        for (std::size_t i = 0; i < 5; ++i)
            bytes[i * data::kImageBytes + shown[i]] = 255;
        data::ImageDataset set = random_images(5, 1);
        set.images = from_data<std::uint8_t>(bytes, {5, 3, 32, 32}, {DType::u8});
        set.labels = from_data<std::int64_t>(labels, {5}, {DType::i64});

        data::DataLoader loader = make_loader(set, 2, false);
        const auto tally = nn::evaluate(*network, loader);
        REQUIRE(tally.has_value());
        CHECK(tally->images == 5);
        CHECK(tally->correct == 4);
        CHECK(tally->accuracy() == 0.8);
    });
}

TEST_CASE("Evaluation gives the same for every batch size", "[trainer]") {
    test::for_each_device([](Device device) {
        const auto network = make_network(device);
        const data::ImageDataset set = random_images(672, 5);
        std::vector<nn::Tally> results;
        for (const std::int64_t size : {1, 100, 672}) {
            data::DataLoader loader = make_loader(set, size, false);
            results.push_back(nn::evaluate(*network, loader).value());
            INFO("batch size " << size);
            CHECK(results.back().images == 672);
            CHECK(results.back().correct == results.front().correct);
            CHECK(results.back().loss() == Catch::Approx(results.front().loss()).epsilon(1e-6));
        }
    });
}

TEST_CASE("Evaluation leaves the network's modes, its state and the random numbers as they were",
          "[trainer]") {
    const auto network = make_network(kCpu);
    network->named_modules()[3].second->eval();  // a frozen batch norm stays frozen
    std::vector<bool> before;
    for (const auto& [path, module] : network->named_modules())
        before.push_back(module->is_training());
    const auto generator = default_generator().state();
    std::vector<std::vector<double>> state;
    for (const auto& [name, tensor] : network->state_dict())
        state.push_back(tensor.to_vector<double>());

    data::DataLoader loader = make_loader(random_images(9, 1), 4, false);
    REQUIRE(nn::evaluate(*network, loader).has_value());
    std::vector<bool> after;
    for (const auto& [path, module] : network->named_modules())
        after.push_back(module->is_training());
    CHECK(before == after);
    CHECK(default_generator().state() == generator);
    std::size_t i = 0;
    for (const auto& [name, tensor] : network->state_dict())
        CHECK(tensor.to_vector<double>() == state[i++]);

    const std::atomic<bool> stop{true};
    CHECK_FALSE(nn::evaluate(*network, loader, &stop).has_value());
}

TEST_CASE("A run stopped after any step and restored elsewhere ends with the same bits", "[trainer]") {
    const bool adam = GENERATE(false, true);
    test::for_each_device([adam](Device device) {
        const test::TempFolder folder;
        Run straight(device, adam);
        REQUIRE(straight.fit(epochs(2)) == FitEnd::epochs_done);
        REQUIRE(straight.reports.size() == 2);
        const auto expected = straight.bits();

        for (std::int64_t steps = 0; steps <= 2 * kSteps; ++steps) {
            INFO("stopped after " << steps << " steps");
            const auto path = folder.path() / ("run" + std::to_string(steps));
            std::map<std::string, std::vector<double>> reports;
            {
                Run first(device, adam);
                nn::FitOptions options = epochs(2);
                options.checkpoint = path;
                if (steps == 0) {
                    const std::atomic<bool> stop{true};
                    options.stop = &stop;
                    REQUIRE(first.fit(options) == FitEnd::stopped);
                } else {
                    options.max_steps = steps;
                    REQUIRE(first.fit(options) ==
                            (steps == 2 * kSteps ? FitEnd::epochs_done : FitEnd::steps_done));
                }
                REQUIRE(first.trainer.step_count() == steps);
                reports = first.reports;
            }
            manual_seed(999);
            Run second(device, adam);
            second.trainer.restore(nn::load_checkpoint(path));
            CHECK(second.trainer.step_count() == steps);
            second.reports = reports;
            nn::FitOptions options = epochs(2);
            options.checkpoint = path;
            REQUIRE(second.fit(options) == FitEnd::epochs_done);
            CHECK(second.bits() == expected);
        }
    });
}

TEST_CASE("The checkpoint on disk is always one that continues the run", "[trainer]") {
    const test::TempFolder folder;
    const auto path = folder.path() / "run";
    Run straight(kCpu);
    straight.fit(epochs(2));

    Run saving(kCpu);
    nn::FitOptions options = epochs(2);
    options.checkpoint = path;
    options.save_every = 2;
    options.settings = {{"name", "value"}};
    std::vector<std::int64_t> seen;
    nn::FitOptions watched = options;
    watched.on_step = [&](const nn::StepReport& report) {
        // What a kill at this moment would leave.
        const nn::Checkpoint left = nn::load_checkpoint(path);
        CHECK(left.settings == options.settings);
        CHECK(left.step < report.step);
        seen.push_back(left.step);
    };
    saving.trainer.fit(saving.train, &saving.test, watched);
    // Steps 1..10 of two epochs of five: the start, every second step, and each epoch's end.
    CHECK(seen == std::vector<std::int64_t>{0, 0, 2, 2, 4, 5, 6, 6, 8, 8});
    CHECK(nn::load_checkpoint(path).step == 2 * kSteps);
    CHECK(nn::load_checkpoint(path).epoch == 2);
}

TEST_CASE("A wish to stop is granted after the step, and saves", "[trainer]") {
    const test::TempFolder folder;
    Run run(kCpu);
    std::atomic<bool> stop{false};
    nn::FitOptions options = epochs(2);
    options.checkpoint = folder.path() / "run";
    options.stop = &stop;
    bool reported = false;
    options.on_step = [&](const nn::StepReport& report) { stop = report.step == 7; };
    options.on_epoch = [&](const nn::EpochReport& report) { reported = report.stats.epoch == 1; };
    CHECK(run.trainer.fit(run.train, &run.test, options) == FitEnd::stopped);
    CHECK(run.trainer.step_count() == 7);
    CHECK_FALSE(reported);
    const nn::Checkpoint saved = nn::load_checkpoint(options.checkpoint);
    CHECK(saved.step == 7);
    CHECK(saved.epoch == 1);
    CHECK(saved.loader.next_batch == 2);
}

TEST_CASE("A step limit inside an epoch evaluates and reports what was done", "[trainer]") {
    Run run(kCpu);
    nn::FitOptions options = epochs(9);
    options.max_steps = 2;
    int reports = 0;
    options.on_epoch = [&](const nn::EpochReport& report) {
        ++reports;
        CHECK_FALSE(report.complete);
        CHECK(report.stats.steps == 2);
        CHECK(report.stats.train.images == 2 * kBatch);
        CHECK(report.test.has_value());
    };
    CHECK(run.trainer.fit(run.train, &run.test, options) == FitEnd::steps_done);
    CHECK(reports == 1);
}

TEST_CASE("An epoch's report counts every image and adds up its time", "[trainer]") {
    Run run(kCpu);
    std::vector<double> rates;
    nn::FitOptions options = epochs(1);
    options.on_step = [&](const nn::StepReport& report) {
        rates.push_back(report.stats.learning_rate);
        CHECK(report.steps_in_epoch == kSteps);
    };
    options.on_epoch = [&](const nn::EpochReport& report) {
        CHECK(report.complete);
        CHECK(report.stats.train.images == kImages);
        CHECK(report.test->images == 7);
        CHECK(report.stats.time.forward > 0.0);
        CHECK(report.stats.time.backward > 0.0);
        CHECK(report.seconds >= report.stats.time.total());
        CHECK(report.stats.images_per_second() > 0.0);
        CHECK(report.peak_memory > 0);
    };
    run.trainer.fit(run.train, &run.test, options);
    REQUIRE(rates.size() == kSteps);
    for (std::int64_t step = 0; step < kSteps; ++step) {
        CHECK(rates[static_cast<std::size_t>(step)] == run.schedule.rate(step));
    }
    CHECK(run.optimizer->momentum() == run.schedule.momentum(kSteps - 1));
}

TEST_CASE("Reading losses later changes no sum", "[trainer]") {
    test::for_each_device([](Device device) {
        Run each(device, false, {0.1, false, true, 1});
        Run seldom(device, false, {0.1, false, false, 3});
        manual_seed(5);
        each.fit(epochs(2));
        manual_seed(5);
        seldom.fit(epochs(2));
        CHECK(each.bits() == seldom.bits());
    });
}

TEST_CASE("A loss that is not finite ends the run before it reaches the checkpoint", "[trainer]") {
    const test::TempFolder folder;
    const auto path = folder.path() / "run";
    const auto network = make_reader(kCpu);
    optim::SGD optimizer(network->parameters(), {.lr = 1.0});
    const optim::ConstantLR schedule(1e38);
    nn::Trainer trainer(*network, optimizer, schedule);
    data::DataLoader train = make_loader(random_images(40, 1), 5, true);
    nn::FitOptions options = epochs(3);
    options.checkpoint = path;
    options.save_every = 1;
    try {
        trainer.fit(train, nullptr, options);
        FAIL("a rate of 1e38 was survived");
    } catch (const Error& error) {
        // Either the loss or the weights are met first; both messages tell the way out.
        CHECK_THAT(error.what(), ContainsSubstring("lower the learning rate"));
    }
    for (const auto& [name, tensor] : nn::load_checkpoint(path).model) {
        for (const double value : tensor.to_vector<double>())
            REQUIRE(std::isfinite(value));
    }
}

TEST_CASE("A loss that is not finite names its step and its rate", "[trainer]") {
    const auto network = make_reader(kCpu);
    optim::SGD optimizer(network->parameters(), {.lr = 1.0});
    const optim::ConstantLR schedule(0.5);
    nn::Trainer trainer(*network, optimizer, schedule);
    data::Batch batch;
    batch.images = zeros({2, 3, 32, 32});
    batch.labels = zeros({2}, {DType::i64});
    batch.count = 2;
    trainer.step(batch);
    batch.images = full({2, 3, 32, 32}, std::numeric_limits<double>::quiet_NaN());
    CHECK_THROWS_WITH(trainer.step(batch), ContainsSubstring("the loss is NaN at step 2 (epoch 1)") &&
                                               ContainsSubstring("now 0.5"));
    CHECK(trainer.step_count() == 1);
}

TEST_CASE("Anomaly detection names the op that made the first NaN", "[trainer]") {
    const auto network = make_reader(kCpu);
    {
        const NoGradGuard no_grad;
        network->parameters()[0].mul_(4.0);  // four times a value that is almost the largest
    }
    optim::SGD optimizer(network->parameters(), {.lr = 1.0});
    const optim::ConstantLR schedule(0.5);
    nn::TrainerOptions options;
    options.detect_anomaly = true;
    nn::Trainer trainer(*network, optimizer, schedule, options);
    data::Batch batch;
    batch.images = full({2, 3, 32, 32}, 3e38);
    batch.labels = zeros({2}, {DType::i64});
    batch.count = 2;
    CHECK_THROWS_WITH(trainer.step(batch), ContainsSubstring("linear"));
}

TEST_CASE("What does not fit a run is refused and changes nothing", "[trainer]") {
    Run run(kCpu);
    nn::FitOptions options = epochs(2);
    options.max_steps = 3;
    run.fit(options);
    const nn::Checkpoint good = run.trainer.checkpoint(run.train);

    Run other(kCpu);
    const auto untouched = other.bits();
    const auto refused = [&](nn::Checkpoint bad) {
        CHECK_THROWS_AS(other.trainer.restore(bad), Error);
        CHECK(other.bits() == untouched);
        CHECK(other.trainer.step_count() == 0);
    };
    nn::Checkpoint bad = good;
    bad.model.pop_back();
    refused(bad);
    bad = good;
    bad.optimizer.emplace_back("state.99.momentum_buffer", zeros({3}));
    refused(bad);
    for (const double value : {-1.0, 0.5, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
        bad = good;
        bad.metrics["epoch.images"] = value;
        refused(bad);
    }
    bad = good;
    bad.metrics.erase("epoch.loss_sum");
    refused(bad);
    bad = good;
    bad.loader.next_batch = 4;
    refused(bad);

    // Another order or another division of the images cannot be continued exactly.
    for (const auto& [batch, seed] : {std::pair<std::int64_t, std::uint64_t>{kBatch, 4}, {kBatch + 1, 3}}) {
        Run third(kCpu);
        third.trainer.restore(good);
        data::DataLoader different = make_loader(random_images(kImages, 1), batch, true, seed);
        CHECK_THROWS_WITH(third.trainer.fit(different, nullptr, epochs(2)),
                          ContainsSubstring("an exact resume needs the same"));
    }
}

TEST_CASE("Impossible trainer options are refused by name", "[trainer]") {
    const auto network = make_network(kCpu);
    optim::SGD optimizer(network->parameters(), {.lr = 0.1});
    const optim::ConstantLR schedule(0.1);
    CHECK_THROWS_WITH(nn::Trainer(*network, optimizer, schedule, {1.5, false, true, 0}),
                      ContainsSubstring("label_smoothing"));
    CHECK_THROWS_WITH(nn::Trainer(*network, optimizer, schedule, {0.0, false, true, -1}),
                      ContainsSubstring("loss_interval"));
    nn::Flatten empty;
    CHECK_THROWS_WITH(nn::Trainer(empty, optimizer, schedule), ContainsSubstring("no parameters"));
    nn::Trainer trainer(*network, optimizer, schedule);
    data::DataLoader loader = make_loader(random_images(10, 1), 5, true);
    CHECK_THROWS_AS(trainer.fit(loader, nullptr, epochs(-1)), ValueError);
}

TEST_CASE("Training learns, in f32 and with 16-bit activations", "[trainer]") {
    test::for_each_device([](Device device) {
        const DType dtype = GENERATE(DType::f32, DType::bf16);
        Run run(device, false, {0.0, false, true, 0});
        const data::ImageDataset set = random_images(40, 1);
        // The same forty images each epoch, unchanged: they can be learned by heart.
        data::DataLoader plain = make_loader(set, 10, false, 3, dtype);
        std::vector<double> losses;
        nn::FitOptions options = epochs(12);
        options.on_epoch = [&](const nn::EpochReport& report) {
            losses.push_back(report.stats.train.loss());
        };
        const optim::ConstantLR schedule(0.02);
        nn::Trainer trainer(*run.network, *run.optimizer, schedule);
        trainer.fit(plain, nullptr, options);
        CHECK(losses.back() < 0.6 * losses.front());
        for (const Tensor& parameter : run.network->parameters())
            CHECK(parameter.dtype() == DType::f32);
    });
}

}  // namespace fulcrum

TEST_CASE("Batches of unequal size count by their images", "[trainer]") {
    fulcrum::nn::Tally losses;
    for (const auto& [images, mean] : {std::pair{256, 0.7}, {256, 0.8}, {10, 0.9}}) {
        losses += fulcrum::nn::Tally{.images = images, .correct = 0, .loss_sum = images * mean};
    }
    CHECK(losses.loss() == Catch::Approx(0.7528736).epsilon(1e-6));
    fulcrum::nn::Tally hits;
    for (const auto& [images, correct] : {std::pair{2, 2}, {2, 2}, {1, 0}}) {
        hits += fulcrum::nn::Tally{.images = images, .correct = correct, .loss_sum = 0.0};
    }
    CHECK(hits.accuracy() == 0.8);
}
