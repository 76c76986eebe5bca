#include "ballast/sweep.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "ballast/statistics.h"
#include "error_message.h"
#include "eval/sweep/sweep_row.h"
#include "fixed_recipe.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;
using test::Contains;
using test::error_message;
using test::TemporaryDirectory;

std::string varied_text(std::size_t step) {
  std::string text;
  for (std::size_t i = 0; i < 150; ++i) text += static_cast<char>('a' + i * step % 24);
  return text;
}

SweepRecipe named_scheme(const std::string& scheme) {
  SweepRecipe recipe{.name = scheme};
  recipe.conversion.recipe = test::fixed_recipe(scheme);
  return recipe;
}

/// A model, a text and a folder for results.
struct SweepCase {
  TemporaryDirectory directory;
  fs::path model;
  fs::path output = directory / "sweep";
  SweepOptions options;
  std::multiset<std::string> stages;  ///< stages that progress reported, once for each step

  explicit SweepCase(const std::vector<std::string>& schemes) {
    test::TinyModel tiny = test::random_model();
    tiny.tokenizer = test::tiny_tokenizer_json();
    model = tiny.write(directory / "model");
    for (const std::string& scheme : schemes) options.recipes.push_back(named_scheme(scheme));
    options.text_file = test::write_file(directory / "text.txt", varied_text(7));
    options.context = 12;
    options.chunks = 3;
    options.calibration.text_files = {test::write_file(directory / "calibration.txt", varied_text(5))};
    options.calibration.samples = 2;
    options.calibration.length = 16;
    options.benchmark.reset();
  }

  Sweep run() {
    stages.clear();
    return sweep(model, output, options,
                 [this](std::string_view stage, std::size_t, std::size_t) { stages.emplace(stage); });
  }

  bool evaluated(const std::string& recipe) const {
    for (const std::string& stage : stages) {
      if (stage.starts_with(recipe + " ") && stage.ends_with("evaluating")) return true;
    }
    return false;
  }
};

TEST_CASE("the sizes of the default recipes are spread over the possible sizes of the model") {
  for (const std::uint64_t weights : {std::uint64_t{1'000'000}, std::uint64_t{134'515'008}}) {
    std::set<std::string> names;
    std::size_t sized = 0;
    for (const SweepRecipe& recipe : default_sweep_recipes(weights, preset_by_name("fast"))) {
      CHECK(names.insert(recipe.name).second);
      const std::uint64_t target = recipe.conversion.recipe.target_bytes;
      if (target == Recipe::kNaturalSize) continue;
      CHECK(target * 8 > weights * 4);
      CHECK(target * 8 < weights * 8);
      ++sized;
    }
    CHECK(sized >= 4);
    for (const char* scheme : {"w8a8", "w8a16"}) CHECK(names.contains(scheme));
  }
}

TEST_CASE("a recipe's figures equal those of convert and evaluate") {
  SweepCase example({"w8a16", "w4a8"});
  example.options.benchmark = BenchmarkOptions{.prompt = 8, .generate = 4, .repetitions = 1};
  const Sweep result = example.run();
  REQUIRE(result.rows.size() == 2);
  CHECK(result.model == "model");
  CHECK(result.text == "text.txt");
  CHECK(result.calibration == "2 samples of 16 tokens, calibration.txt");
  for (const SweepRow& row : result.rows) {
    CAPTURE(row.name);
    CHECK(row.error.empty());
    ConvertOptions conversion;
    conversion.recipe = test::fixed_recipe(row.name);
    conversion.statistics = example.output / "calibration.stats";
    const fs::path converted = example.directory / row.name;
    const ConvertReport report = convert(example.model, converted, conversion);
    EvaluateOptions comparison;
    comparison.text_file = example.options.text_file;
    comparison.reference = example.model;
    comparison.context = 12;
    comparison.chunks = 3;
    const Evaluation expected = evaluate(converted, comparison);
    REQUIRE(row.evaluation.has_value());
    CHECK(*row.evaluation->kl_mean == *expected.kl_mean);
    CHECK(row.evaluation->ppl == expected.ppl);
    CHECK(row.evaluation->file_bytes == report.bytes_after);
    std::uint64_t bytes = 0;
    for (const SweepFormat& format : row.formats) bytes += format.bytes;
    CHECK(bytes <= report.bytes_after);
    CHECK(bytes > 0);
    REQUIRE(row.benchmark.has_value());
    REQUIRE(row.benchmark->results.size() == 2);
    CHECK(row.benchmark->results[0].test == "pp8");
    CHECK(row.benchmark->results[1].tokens_per_second > 0);
  }
}

TEST_CASE("adding a recipe measures only that recipe") {
  SweepCase example({"w8a16", "w4a16"});
  const Sweep first = example.run();
  CHECK(example.evaluated("w8a16"));
  example.options.recipes.push_back(named_scheme("w8a8"));
  const Sweep second = example.run();
  CHECK(!example.evaluated("w8a16"));
  CHECK(!example.evaluated("w4a16"));
  CHECK(example.evaluated("w8a8"));
  CHECK(second.rows[0].evaluation->ppl == first.rows[0].evaluation->ppl);

  example.options.recipes.pop_back();
  CHECK(sweep_json(example.run()) == sweep_json(first));
  CHECK(example.stages.empty());
}

TEST_CASE("two names of one recipe are measured once, and both get the result") {
  SweepCase example({"w8a16", "w4a16"});
  SweepRecipe equal = named_scheme("w8a16");
  equal.name = "again";
  example.options.recipes.push_back(equal);
  example.options.benchmark = BenchmarkOptions{.prompt = 8, .generate = 0, .repetitions = 1};
  SUBCASE("models are removed") {}
  SUBCASE("models are kept") {
    example.options.keep_models = true;
  }
  SUBCASE("it fails") {
    for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
      example.options.recipes[i].conversion.recipe.overrides = {{.pattern = "no_such_tensor", .format = {}}};
    }
  }
  const Sweep result = example.run();
  CHECK(!example.evaluated("again"));
  REQUIRE(result.rows.size() == 3);
  CHECK(result.rows[2].name == "again");
  CHECK(result.rows[2].error == result.rows[0].error);
  CHECK(eval::row_json(result.rows[2]) == eval::row_json(result.rows[0]));
  CHECK(eval::row_json(result.rows[2]) != eval::row_json(result.rows[1]));
  CHECK(fs::exists(example.output / "models" / "again") == example.options.keep_models);
}

TEST_CASE("speed that is requested later is measured without another evaluation, and stored") {
  SweepCase example({"w8a16"});
  example.run();
  example.options.benchmark = BenchmarkOptions{.prompt = 8, .generate = 0, .repetitions = 1};
  const Sweep timed = example.run();
  CHECK(!example.evaluated("w8a16"));
  REQUIRE(timed.rows[0].benchmark.has_value());
  const Sweep again = example.run();
  CHECK(again.rows[0].benchmark->results[0].tokens_per_second == timed.rows[0].benchmark->results[0].tokens_per_second);
  example.options.benchmark.reset();
  CHECK(example.run().rows[0].benchmark.has_value());
}

TEST_CASE("a result is measured again when any of its inputs changes") {
  SweepCase example({"w8a16"});
  example.run();
  SUBCASE("the text") {
    test::write_file(example.options.text_file, varied_text(11));
  }
  SUBCASE("the chunks") {
    example.options.chunks = 2;
  }
  SUBCASE("the context") {
    example.options.context = 14;
  }
  SUBCASE("the recipe") {
    example.options.recipes[0].conversion.recipe.linears.group_size = 32;
  }
  SUBCASE("the rounding") {
    example.options.recipes[0].conversion.recipe.rounding = Recipe::Rounding::kScaleSearch;
  }
  SUBCASE("the samples that rounding sees") {
    example.options.recipes[0].conversion.calibration.samples = 1;
  }
  SUBCASE("the calibration text") {
    test::write_file(example.options.calibration.text_files[0], varied_text(13));
  }
  SUBCASE("the model") {
    test::TinyModel other = test::random_model({.weights = 0.1F});
    other.tokenizer = test::tiny_tokenizer_json();
    other.write(example.model);
  }
  SUBCASE("the tokenizer") {
    nlohmann::json tokenizer = test::tiny_tokenizer_json();
    tokenizer["model"]["merges"].erase(4);
    test::write_file(example.model / "tokenizer.json", tokenizer.dump());
  }
  example.run();
  CHECK(example.evaluated("w8a16"));
}

TEST_CASE("a result does not depend on the directory of the model and the texts") {
  SweepCase example({"w8a16"});
  example.run();
  fs::rename(example.model, example.directory / "moved");
  example.model = example.directory / "moved";
  example.run();
  CHECK(example.stages.empty());
}

TEST_CASE("a sweep that is stopped after any step resumes and gives the result of an undisturbed one") {
  SweepCase undisturbed({"w8a8", "w4a16"});
  const std::string expected = sweep_json(undisturbed.run());
  const std::size_t steps = undisturbed.stages.size();
  REQUIRE(steps > 10);

  SweepCase example({"w8a8", "w4a16"});
  struct Stop {};
  // Each run is stopped one step later than the previous one; all use the same directory.
  std::size_t runs = 0;
  std::string result;
  for (std::size_t allowed = 1; result.empty(); ++allowed) {
    REQUIRE(++runs <= steps + 1);
    std::size_t done = 0;
    bool stopped = false;
    try {
      result = sweep_json(
          sweep(example.model, example.output, example.options, [&](std::string_view, std::size_t, std::size_t) {
            if (++done >= allowed) throw Stop();
          }));
    } catch (const Stop&) {
      stopped = true;
    }
    CHECK(stopped == result.empty());
  }
  CHECK(result == expected);
  CHECK(runs < steps);  // finished parts were not run again
  CHECK(!fs::exists(example.output / "models"));
  CHECK(!fs::exists(example.output / "reference"));
}

TEST_CASE("a complete model of an earlier run is reused only if its inputs are the same") {
  SweepCase example({"w8a16"});
  example.options.keep_models = true;
  const Sweep first = example.run();
  const fs::path converted = example.output / "models" / "w8a16";
  REQUIRE(fs::exists(converted / "config.json"));
  const auto has_converted = [&] {
    for (const std::string& stage : example.stages) {
      if (stage.ends_with("converting")) return true;
    }
    return false;
  };
  example.run();
  CHECK(!has_converted());
  fs::remove(example.output / "models" / "w8a16.key");  // as after a kill while it was being replaced
  CHECK(sweep_json(example.run()) == sweep_json(first));
  CHECK(has_converted());
  example.options.recipes[0].conversion.recipe.linears.bits = 6;
  example.run();
  CHECK(has_converted());

  example.options.keep_models = false;
  example.run();
  CHECK(!fs::exists(example.output / "models"));
}

TEST_CASE("a failed recipe has its message in the result, and the others are measured") {
  SweepCase example({"w8a16", "w4a16"});
  example.options.recipes[0].conversion.recipe.overrides = {{.pattern = "no_such_tensor", .format = {}}};
  const Sweep result = example.run();
  CHECK(result.rows[0].error == Contains("no_such_tensor"));
  CHECK(!result.rows[0].evaluation.has_value());
  CHECK(result.rows[1].error.empty());
  CHECK(result.rows[1].evaluation.has_value());
  CHECK(nlohmann::json::parse(sweep_json(result))["rows"][0]["error"] == result.rows[0].error);
  example.run();  // the failed recipe is tried again, the other one is not
  CHECK(!example.evaluated("w4a16"));
}

TEST_CASE("given statistics are used, and no calibration runs") {
  SweepCase example({"w8a8"});
  const fs::path stats = example.directory / "own.stats";
  save_statistics(calibrate(example.model, example.options.calibration), stats, false);
  example.options.statistics = stats;
  example.run();
  CHECK(!fs::exists(example.output / "calibration.stats"));
  for (const std::string& stage : example.stages) CHECK(stage.starts_with("w8a8 (1 of 1): "));
}

TEST_CASE("options that make every recipe fail are refused before the work begins") {
  SweepCase example({"w8a16"});
  const auto refusal = [&] { return error_message([&] { example.run(); }); };
  example.options.context = 0;  // regression: a division by it
  CHECK(refusal() == "context: must be at least 4 tokens");
  example.options.context = 65;
  CHECK(refusal() == "context: 65 is more than the model's 64");
  example.options.context = 12;
  example.options.recipes.push_back(example.options.recipes[0]);
  CHECK(refusal() == "recipe 'w8a16': is named twice");
  example.options.recipes.back().name = "../up";
  CHECK(refusal() == Contains("needs a name of letters"));
  example.options.recipes.clear();
  CHECK(refusal() == "recipes: are missing: name at least one");
  example.options.recipes = {named_scheme("w8a16")};
  const fs::path model = example.model;
  example.model = test::golden_model("bert");
  CHECK(refusal() == Contains("is an encoder"));
  example.model = example.directory / "none";
  CHECK(refusal() == Contains("none"));
  CHECK(!fs::exists(example.output));

  ConvertOptions conversion;
  conversion.recipe = test::fixed_recipe("w8a16");
  example.model = example.directory / "quantized";
  convert(model, example.model, conversion);
  CHECK(refusal() == Contains("is quantized already"));
  example.model = model;
  example.options.text_file = example.directory / "none.txt";
  CHECK(refusal() == Contains("none.txt"));
  example.options.text_file = test::write_file(example.directory / "short.txt", "ab");
  CHECK(refusal() == Contains("short.txt"));
}

TEST_CASE("a directory with other files is refused and not changed") {
  SweepCase example({"w8a16"});
  fs::create_directory(example.output);
  test::write_file(example.output / "results.csv", "precious");
  CHECK(error_message([&] { example.run(); }) == Contains("holds something other than a sweep's results"));
  CHECK(test::read_file(example.output / "results.csv") == "precious");
}

TEST_CASE("a damaged result is named in an error and not used") {
  SweepCase example({"w8a16"});
  example.run();
  const fs::path file = fs::directory_iterator(example.output / "runs")->path();
  test::write_file(file, "{}");
  CHECK(error_message([&] { example.run(); }) == Contains(file.string() + ": is not what a sweep writes"));
  test::write_file(file, "{\"recipe\"");
  CHECK(error_message([&] { example.run(); }) == Contains(file.string()));
}

TEST_CASE("a sweep's CSV can be used as the peers of another sweep") {
  SweepCase example({"w8a16", "w4a16"});
  example.options.benchmark = BenchmarkOptions{.prompt = 8, .generate = 0, .repetitions = 1};
  const Sweep result = example.run();
  const fs::path csv = test::write_file(example.directory / "results.csv", sweep_csv(result));
  const std::vector<SweepPeer> peers = read_peers(csv);
  REQUIRE(peers.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(peers[i].program == "ballast");
    CHECK(peers[i].name == result.rows[i].name);
    CHECK(peers[i].kl == *result.rows[i].evaluation->kl_mean);
    CHECK(peers[i].file_mb == doctest::Approx(static_cast<double>(result.rows[i].evaluation->file_bytes) / 1e6));
    CHECK(peers[i].speeds.at("pp8") == result.rows[i].benchmark->results[0].tokens_per_second);
  }
}

TEST_CASE("the CSV keeps its columns if a recipe failed, and quotes values that need it") {
  Sweep result;
  result.rows = {{.name = "bad", .error = "file: says \"no\", twice"}};
  SweepRow& good = result.rows.emplace_back(SweepRow{.name = "good"});
  good.evaluation.emplace();
  good.evaluation->ppl = 2.5;
  good.evaluation->kl_mean = 0.125;
  good.evaluation->file_bytes = 92'500'000;
  CHECK(sweep_csv(result) ==
        "name,program,file_mb,bits_per_weight,kl,kl_p99,ppl,top1,error\n"
        "bad,ballast,,,,,,,\"file: says \"\"no\"\", twice\"\n"
        "good,ballast,92.5,0,0.125,,2.5,,\n");
}

}  // namespace
}  // namespace ballast
