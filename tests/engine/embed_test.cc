#include "ballast/embed.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ballast/convert.h"
#include "ballast/generate.h"
#include "ballast/model.h"
#include "error_message.h"
#include "gguf_model.h"
#include "model/source/model_source.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"
#include "torch_archive.h"

namespace ballast {
namespace {

using test::Contains;
using test::error_message;
using test::TemporaryDirectory;

constexpr CacheOptions::Type kExactCache = CacheOptions::Type::kF32;
constexpr std::size_t kWords = 262;  // of the tiny tokenizer

/// The golden encoder as encoders of texts are published: no head, and no "bert." before its names.
test::TinyModel published_encoder() {
  test::TinyModel golden = test::read_model(test::golden_model("bert"));
  test::TinyModel model{.config = golden.config, .tensors = {}, .tokenizer = test::tiny_tokenizer_json()};
  model.config["architectures"] = {"BertModel"};
  model.config["vocab_size"] = kWords;
  for (auto& [name, tensor] : golden.tensors) {
    if (!name.starts_with("bert.")) continue;
    model.tensors[name.substr(5)] = std::move(tensor);
  }
  Tensor& words = model.at("embeddings.word_embeddings.weight");
  const std::size_t known = words.values.size();
  words.shape[0] = kWords;
  words.values.resize(kWords * 32);
  for (std::size_t i = known; i < words.values.size(); ++i) words.values[i] = words.values[i - known];
  return model;
}

/// Beside the model, as sentence-transformers writes it.
void write_modules(const std::filesystem::path& model, const nlohmann::json& pooling, bool normalized,
                   int most_tokens) {
  nlohmann::json modules = {
      {{"idx", 0}, {"name", "0"}, {"path", ""}, {"type", "sentence_transformers.models.Transformer"}},
      {{"idx", 1}, {"name", "1"}, {"path", "1_Pooling"}, {"type", "sentence_transformers.models.Pooling"}}};
  if (normalized) {
    modules.push_back(
        {{"idx", 2}, {"name", "2"}, {"path", "2_Normalize"}, {"type", "sentence_transformers.models.Normalize"}});
  }
  std::filesystem::create_directories(model / "1_Pooling");
  test::write_file(model / "modules.json", modules.dump());
  test::write_file(model / "1_Pooling" / "config.json", pooling.dump());
  test::write_file(model / "sentence_bert_config.json", nlohmann::json{{"max_seq_length", most_tokens}}.dump());
}

std::vector<float> hidden_values(const Model& model, const std::string& text, Pooling pooling) {
  const std::vector<std::string> texts = {text};
  return model.embed(texts, {.pooling = pooling, .normalized = false, .cache_type = CacheOptions::Type::kF32}).values;
}

double length_of(std::span<const float> vector) {
  double squares = 0;
  for (const float value : vector) squares += double{value} * value;
  return std::sqrt(squares);
}

TEST_CASE("a text's vector does not depend on the other texts of a batch") {
  const TemporaryDirectory directory;
  const Model model(published_encoder().write(directory / "m"));
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) texts.push_back("text " + std::string(static_cast<std::size_t>(i), 'x'));
  const TextVectors together = model.embed(texts);
  REQUIRE(together.size == 32);
  REQUIRE(together.values.size() == texts.size() * 32);
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const TextVectors alone = model.embed(std::span(texts).subspan(i, 1));
    CHECK(alone.values == std::vector<float>(together.values.begin() + static_cast<std::ptrdiff_t>(i * 32),
                                             together.values.begin() + static_cast<std::ptrdiff_t>((i + 1) * 32)));
    CHECK(length_of(alone.values) == doctest::Approx(1));
    tokens += alone.tokens;
  }
  CHECK(together.tokens == tokens);
  CHECK(together.cut == 0);
}

TEST_CASE("pooling takes the mean, the first or the last of a text's tokens") {
  const TemporaryDirectory directory;
  const Model model(published_encoder().write(directory / "m"));
  const std::vector<float> mean = hidden_values(model, "!\"#", Pooling::kMean);
  // What the runs of two pieces of the same text have in common is nothing: an encoder's tokens see all others.
  CHECK(hidden_values(model, "!\"#", Pooling::kFirst) != hidden_values(model, "!\"", Pooling::kFirst));
  CHECK(hidden_values(model, "!", Pooling::kFirst) == hidden_values(model, "!", Pooling::kLast));
  CHECK(hidden_values(model, "!", Pooling::kFirst) == hidden_values(model, "!", Pooling::kMean));
  CHECK(hidden_values(model, "!\"#", Pooling::kFirst) != hidden_values(model, "!\"#", Pooling::kLast));
  CHECK(mean != hidden_values(model, "!\"#", Pooling::kLast));
}

TEST_CASE("a model's own settings for vectors apply unless options override them") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = published_encoder().write(directory / "m");
  const std::vector<std::string> texts = {"abcdefgh"};
  const Model plain(path);
  CHECK_FALSE(plain.spec().text_vectors.has_value());
  const EmbedOptions first = {.pooling = Pooling::kFirst, .normalized = false};
  SUBCASE("older files have a flag for each kind of pooling") {
    write_modules(path, {{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", false}}, false, 5);
  }
  SUBCASE("newer files name it") {
    write_modules(path, {{"pooling_mode", "cls"}}, false, 5);
  }
  const Model model(path);
  REQUIRE(model.spec().text_vectors.has_value());
  CHECK(*model.spec().text_vectors ==
        TextVectorSpec{.pooling = Pooling::kFirst, .normalized = false, .most_tokens = 5});
  const TextVectors cut = model.embed(texts);
  CHECK(cut.cut == 1);
  CHECK(cut.tokens == 5);
  CHECK(cut.values == plain.embed(std::vector<std::string>{"abcde"}, first).values);
  EmbedOptions all = first;
  all.most_tokens = 64;
  CHECK(model.embed(texts, all).values == plain.embed(texts, first).values);
}

TEST_CASE("modules that make something else of a text are refused") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = published_encoder().write(directory / "m");
  const auto refusal = [&] { return error_message([&] { const Model model(path); }); };
  write_modules(path, {{"pooling_mode_max_tokens", true}}, true, 64);
  CHECK(refusal() == Contains("pooling_mode_max_tokens: is not supported; supported: cls, mean, lasttoken"));
  write_modules(path, {{"pooling_mode", "weightedmean"}}, true, 64);
  CHECK(refusal() == Contains("'weightedmean' is not supported"));
  write_modules(path, {{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", true}}, true, 64);
  CHECK(refusal() == Contains("several kinds of pooling"));
  write_modules(path, nlohmann::json::object(), true, 64);
  CHECK(refusal() == Contains("says no kind of pooling"));
  test::write_file(path / "modules.json", R"([{"path": "2_CNN", "type": "sentence_transformers.models.CNN"}])");
  CHECK(refusal() == Contains("'sentence_transformers.models.CNN' is not supported; supported: Transformer, Pooling"));
  test::write_file(path / "modules.json", "[{");
  CHECK(refusal() == Contains("modules.json"));
}

/// Two dense modules, 32 to 5 with a bias and Tanh and 5 to 3 without, between Pooling and Normalize.
struct DenseFiles {
  std::filesystem::path path;
  Tensor first = {.shape = {5, 32}, .values = std::vector<float>(160)};
  Tensor bias = {.shape = {5}, .values = {0.1F, -0.2F, 0.3F, 0.0F, 0.5F}};
  Tensor second = {.shape = {3, 5}, .values = std::vector<float>(15)};

  explicit DenseFiles(std::filesystem::path model) : path(std::move(model)) {
    for (std::size_t i = 0; i < first.values.size(); ++i) first.values[i] = 0.1F * static_cast<float>(i * 37 % 19) - 1;
    for (std::size_t i = 0; i < second.values.size(); ++i) second.values[i] = static_cast<float>(i * 5 % 7) - 3;
    write_modules(path, {{"pooling_mode", "mean"}}, false, 64);
    write_list({"Transformer", "Pooling", "Dense", "Dense", "Normalize"});
    write_config("2", {{"in_features", 32},
                       {"out_features", 5},
                       {"bias", true},
                       {"activation_function", "torch.nn.modules.activation.Tanh"}});
    write_config("3", {{"in_features", 5},
                       {"out_features", 3},
                       {"bias", false},
                       {"activation_function", "torch.nn.modules.linear.Identity"}});
    write_tensors("2", {{"linear.weight", first}, {"linear.bias", bias}});
    write_tensors("3", {{"linear.weight", second}});
  }

  void write_list(const std::vector<std::string>& kinds) const {
    nlohmann::json modules = nlohmann::json::array();
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const std::string folder = kinds[i] == "Pooling" ? "1_Pooling" : std::to_string(i);
      modules.push_back({{"path", i == 0 ? "" : folder}, {"type", "sentence_transformers.models." + kinds[i]}});
    }
    test::write_file(path / "modules.json", modules.dump());
  }
  void write_config(const char* folder, const nlohmann::json& config) const {
    std::filesystem::create_directories(path / folder);
    test::write_file(path / folder / "config.json", config.dump());
  }
  void write_tensors(const char* folder, const std::map<std::string, Tensor>& tensors) const {
    test::write_file(path / folder / "model.safetensors", test::float_tensors_bytes(tensors));
  }

  /// What the modules make of a pooled vector.
  std::vector<double> pass(const std::vector<float>& pooled) const {
    std::vector<double> hidden(bias.values.begin(), bias.values.end());
    for (std::size_t i = 0; i < 160; ++i) hidden[i / 32] += double{first.values[i]} * pooled[i % 32];
    std::vector<double> vector(3, 0.0);
    for (std::size_t i = 0; i < 15; ++i) vector[i / 5] += double{second.values[i]} * std::tanh(hidden[i % 5]);
    return vector;
  }
};

TEST_CASE("dense modules follow pooling, also after a conversion") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = published_encoder().write(directory / "m");
  const std::vector<float> pooled = hidden_values(Model(path), "abcd", Pooling::kMean);
  const DenseFiles files(path);
  std::vector<double> expected = files.pass(pooled);
  double squares = 0;
  for (const double value : expected) squares += value * value;
  ConvertOptions options;
  options.recipe = recipe_for_scheme("f32");
  convert(path, directory / "out", options);
  for (const std::filesystem::path& place : {path, directory / "out"}) {
    CAPTURE(place);
    const Model model(place);
    CHECK(model.spec().text_vectors->dense.size() == 2);
    const TextVectors vectors = model.embed(std::vector<std::string>{"abcd", "ab"}, {.cache_type = kExactCache});
    REQUIRE(vectors.size == 3);
    REQUIRE(vectors.values.size() == 6);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(vectors.values[i] == doctest::Approx(expected[i] / std::sqrt(squares)).epsilon(1e-4));
    }
    const TextVectors free =
        model.embed(std::vector<std::string>{"abcd"}, {.normalized = false, .cache_type = kExactCache});
    for (std::size_t i = 0; i < 3; ++i) CHECK(free.values[i] == doctest::Approx(expected[i]).epsilon(1e-4));
  }
  std::filesystem::remove(directory / "out" / "modules.json");
  CHECK(error_message([&] { const Model model(directory / "out"); }) ==
        Contains("dense_modules: says 2, but modules.json beside it names 0"));
}

TEST_CASE("broken dense modules are refused by file and field, before a conversion too") {
  const TemporaryDirectory directory;
  const DenseFiles files(published_encoder().write(directory / "m"));
  const auto refusal = [&] {
    ConvertOptions options;
    options.recipe = recipe_for_scheme("f32");
    const std::string message = error_message([&] { convert(files.path, directory / "out", options); });
    CHECK(!std::filesystem::exists(directory / "out"));
    return message;
  };
  SUBCASE("an order that sentence-transformers would not run") {
    files.write_list({"Transformer", "Pooling", "Normalize", "Dense"});
    CHECK(refusal() == Contains("modules.json[3].type: a Dense module must follow Pooling, before Normalize"));
    files.write_list({"Transformer", "Dense", "Pooling"});
    CHECK(refusal() == Contains("a Dense module must follow Pooling"));
  }
  SUBCASE("a folder elsewhere") {
    test::write_file(files.path / "modules.json",
                     R"([{"path": "1_Pooling", "type": "Pooling"}, {"path": "../2", "type": "Dense"}])");
    CHECK(refusal() == Contains("modules.json[1].path: '../2' is no folder beside this file"));
  }
  SUBCASE("sizes that do not meet") {
    files.write_config("3", {{"in_features", 6}, {"out_features", 3}});
    CHECK(refusal() == Contains("in_features: is 6, the vectors before it have 5 values"));
  }
  SUBCASE("another activation or input") {
    files.write_config("3", {{"in_features", 5}, {"out_features", 3}, {"activation_function", "torch.nn.ELU"}});
    CHECK(refusal() == Contains("activation_function: 'torch.nn.ELU' is not supported; supported: Identity, Tanh"));
    files.write_config("3", {{"in_features", 5}, {"out_features", 3}, {"module_input_name", "token_embeddings"}});
    CHECK(refusal() == Contains("module_input_name: 'token_embeddings' is not supported"));
  }
  SUBCASE("a tensor of another shape, or none") {
    files.write_tensors("3", {{"linear.weight", files.first}});
    CHECK(refusal() == Contains("linear.weight: has shape [5, 32], the module's config.json gives [3, 5]"));
    files.write_tensors("3", {{"weight", files.second}});
    CHECK(refusal() == Contains("linear.weight"));
  }
  SUBCASE("a weight that is not finite") {
    DenseFiles broken = files;
    broken.second.values[7] = std::numeric_limits<float>::infinity();
    broken.write_tensors("3", {{"linear.weight", broken.second}});
    CHECK(refusal() == Contains("linear.weight: element [1, 2] is infinite"));
  }
  SUBCASE("no weights") {
    std::filesystem::remove(files.path / "3" / "model.safetensors");
    CHECK(refusal() == Contains("model.safetensors"));
  }
}

TEST_CASE("a model without a head has none to untie") {
  const TemporaryDirectory directory;
  ConvertOptions options;
  options.recipe = recipe_for_scheme("f32");
  options.recipe.untie_head = true;
  const std::filesystem::path path = published_encoder().write(directory / "m");
  CHECK(error_message([&] { convert(path, directory / "out", options); }) == Contains("has no head"));
}

// Letters and BERT's own tokens, as many as the model has rows; in the spelling of a GGUF's metadata with the marks of
// llama.cpp's converter.
nlohmann::json write_words(const std::filesystem::path& directory) {
  std::string lines;
  nlohmann::json marked = nlohmann::json::array();
  nlohmann::json types = nlohmann::json::array();
  const auto add = [&](const std::string& text, const std::string& stored, int type) {
    lines += text + '\n';
    marked.push_back(stored);
    types.push_back(type);
  };
  for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) add(special, special, 3);
  const std::string mark = "\xE2\x96\x81";
  for (char letter = 'a'; letter <= 'z'; ++letter) add({letter}, mark + letter, 1);
  for (char letter = 'a'; letter <= 'z'; ++letter) add(std::string("##") + letter, {letter}, 1);
  while (types.size() < kWords) {
    const std::string text = "unused" + std::to_string(types.size());
    add(text, mark + text, 1);
  }
  test::write_file(directory / "vocab.txt", lines);
  return {{"tokenizer.ggml.model", "bert"}, {"tokenizer.ggml.tokens", marked}, {"tokenizer.ggml.token_type", types}};
}

TEST_CASE("a GGUF of an encoder gives the vectors of its directory") {
  const TemporaryDirectory directory;
  test::TinyModel published = published_encoder();
  published.tokenizer = nullptr;
  const std::filesystem::path path = published.write(directory / "m");
  nlohmann::json metadata = write_words(path);
  write_modules(path, {{"pooling_mode_cls_token", true}}, true, 64);
  const nlohmann::json& config = published.config;
  metadata.update({{"general.architecture", "bert"},
                   {"bert.block_count", config["num_hidden_layers"]},
                   {"bert.context_length", config["max_position_embeddings"]},
                   {"bert.embedding_length", config["hidden_size"]},
                   {"bert.feed_forward_length", config["intermediate_size"]},
                   {"bert.attention.head_count", config["num_attention_heads"]},
                   {"bert.attention.layer_norm_epsilon", config["layer_norm_eps"]},
                   {"bert.attention.causal", false},
                   {"bert.pooling_type", 2}});
  const model::ModelSource source(path);
  const std::string bytes = test::GgufModel(source, source.architecture()).bytes(metadata);
  std::vector<std::string> texts = {"Hello World", "a b [MASK] c", "caf\xC3\xA9 \xE4\xB8\x96", ""};
  for (int i = 0; i < 80; ++i) texts.back() += "x ";
  const TextVectors expected = Model(path).embed(texts);
  const TextVectors vectors = Model(test::write_file(directory / "m.gguf", bytes)).embed(texts);
  CHECK(vectors.values == expected.values);
  CHECK(vectors.tokens == expected.tokens);
  CHECK(vectors.cut == 1);
}

TEST_CASE("a decoder's vector is that of the text with all special tokens that belong around it") {
  const TemporaryDirectory directory;
  test::TinyModel decoder = test::random_model();
  decoder.tokenizer = test::tiny_tokenizer_json();
  const Model plain(decoder.write(directory / "plain"));
  const nlohmann::json special = {{"<|end|>", {{"id", "<|end|>"}, {"ids", {261}}}}};
  decoder.tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "<|end|>"}}}}}},
      {"special_tokens", special}};
  const Model appending(decoder.write(directory / "appending"));
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast}) {
    CHECK(hidden_values(appending, "hello", pooling) == hidden_values(plain, "hello<|end|>", pooling));
    CHECK(hidden_values(appending, "hello", pooling) != hidden_values(plain, "hello", pooling));
  }
  CHECK(appending.encode("hello") == plain.encode("hello"));  // a prompt goes on
  const std::vector<std::string> texts = {"hello hello hello"};
  CHECK(appending.embed(texts, {.most_tokens = 3}).values ==
        plain.embed(std::vector<std::string>{"hello hello<|end|>"}).values);  // the end of the text is cut off
}

TEST_CASE("a decoder without a head makes vectors, also after a conversion, and no text") {
  const TemporaryDirectory directory;
  test::TinyModel decoder = test::random_model();
  decoder.tokenizer = test::tiny_tokenizer_json();
  const std::vector<float> expected = hidden_values(Model(decoder.write(directory / "whole")), "hello", Pooling::kMean);
  decoder.tensors.erase("lm_head.weight");
  decoder.config["architectures"] = {"LlamaModel"};
  const auto path = decoder.write(directory / "bare");
  CHECK(hidden_values(Model(path), "hello", Pooling::kMean) == expected);
  convert(path, directory / "converted", {.recipe = recipe_for_scheme("f32")});
  for (const auto& bare : {path, directory / "converted"}) {
    const Model model(bare);
    Generator generator(model);
    CHECK(error_message([&] { generator.generate("hello", {}); }) == Contains("has no head"));
    CHECK(error_message([&] { model.logits(std::vector<int>{1}); }) == Contains("has no head"));
    CHECK(hidden_values(model, "hello", Pooling::kMean).size() == expected.size());
  }
}

TEST_CASE("heads of tokens give weights of words and vectors of tokens, also after a conversion") {
  const TemporaryDirectory directory;
  const std::string text = "abacus abc";
  const std::vector<std::string> texts = {"xyz", text};
  const auto path = published_encoder().write(directory / "m");
  CHECK(error_message([&] { Model(path).embed_sparse(texts); }) ==
        Contains("has no sparse_linear.pt, which makes these of its tokens"));
  const std::size_t size = 3, hidden = 32;
  Tensor weight{{1, 32}, {}}, vector{{3, 32}, {}};
  for (std::size_t c = 0; c < hidden; ++c) weight.values.push_back(static_cast<float>(c % 5) - 2);
  for (std::size_t i = 0; i < size * hidden; ++i) vector.values.push_back(static_cast<float>(i % 7) - 3);
  test::write_file(path / "sparse_linear.pt", test::torch_file({{"weight", weight}, {"bias", {{1}, {0.5F}}}}));
  test::write_file(path / "colbert_linear.pt",
                   test::torch_file({{"weight", vector}, {"bias", {{3}, {0.1F, 0.2F, -0.3F}}}}));
  convert(path, directory / "converted", {.recipe = recipe_for_scheme("f32")});
  for (const auto& opened : {path, directory / "converted"}) {
    const Model model(opened);
    const std::vector<int> ids = model.encode(text, true);
    const Tensor rows = model.activations(ids, model.spec().layers.size());
    WordWeights expected;
    std::vector<double> vectors;
    for (std::size_t t = 0; t < ids.size(); ++t) {
      double sum = 0.5;
      for (std::size_t c = 0; c < hidden; ++c) sum += double{rows.values[t * hidden + c]} * double{weight.values[c]};
      if (sum > 0) expected[ids[t]] = std::max(expected[ids[t]], static_cast<float>(sum));
      if (t == 0) continue;
      double squares = 0;
      for (std::size_t i = 0; i < size; ++i) {
        double value = i == 0 ? 0.1F : i == 1 ? 0.2F : -0.3F;
        for (std::size_t c = 0; c < hidden; ++c) {
          value += double{rows.values[t * hidden + c]} * double{vector.values[i * hidden + c]};
        }
        vectors.push_back(value);
        squares += value * value;
      }
      for (std::size_t i = vectors.size() - size; i < vectors.size(); ++i) vectors[i] /= std::sqrt(squares);
    }
    const EmbedOptions exact = {.cache_type = kExactCache};
    const WordWeights weights = model.embed_sparse(texts, exact)[1];
    REQUIRE(weights.size() == expected.size());
    CHECK(weights.size() > 0);
    CHECK(weights.size() < ids.size());  // "a" and others come twice
    for (const auto& [id, value] : expected) CHECK(weights.at(id) == doctest::Approx(value).epsilon(1e-4));
    const TokenVectors found = model.embed_tokens(texts, exact);
    CHECK(found.size == size);
    REQUIRE(found.texts[1].size() == vectors.size());
    for (std::size_t i = 0; i < vectors.size(); ++i) {
      CHECK(double{found.texts[1][i]} == doctest::Approx(vectors[i]).epsilon(1e-4));
    }
  }
  test::write_file(path / "sparse_linear.pt", test::torch_file({{"weight", vector}, {"bias", {{3}, {1, 1, 1}}}}));
  CHECK(error_message([&] { const Model wrong(path); }) ==
        Contains("sparse_linear.pt: weight: has shape [3, 32], the model needs [1, 32]"));
}

TEST_CASE("what has no tokens has no vector, and a model without a head no logits") {
  const TemporaryDirectory directory;
  const Model model(published_encoder().write(directory / "m"));
  CHECK(error_message([&] { model.embed(std::vector<std::string>{"a", "", "b"}); }) ==
        Contains("text 2: has no tokens"));
  CHECK(error_message([&] { model.logits(std::vector<int>{1, 2}); }) == Contains("has no head"));
}

}  // namespace
}  // namespace ballast
