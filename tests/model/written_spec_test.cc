#include "model/source/written_spec.h"

#include <doctest/doctest.h>

#include <string>

#include "error_message.h"

namespace ballast::model {
namespace {

using nlohmann::json;
using test::error_message;

ModelSpec read_into(ModelSpec spec, const json& written) {
  read_written_spec(files::JsonReader(written, "config.json: ballast"), spec);
  return spec;
}

std::string refusal(const char* field, const json& value) {
  json written = written_spec(ModelSpec{});
  written[field] = value;
  return error_message([&] { read_into(ModelSpec{}, written); });
}

TEST_CASE("the changes by folds are written and read back") {
  ModelSpec folded;
  folded.norm = {.kind = NormSpec::Kind::kLayer, .bias = true};
  for (bool BiasSpec::* flag :
       {&BiasSpec::query, &BiasSpec::attention_output, &BiasSpec::mixer_input, &BiasSpec::up, &BiasSpec::head}) {
    folded.biases.*flag = true;
  }
  ModelSpec original;
  original.norm.epsilon = 1e-3;
  original.norm.gain_offset = 1;
  original.biases.key = original.biases.down = original.biases.mixer_output = true;
  original.layers.resize(4);
  const ModelSpec read = read_into(original, json::parse(written_spec(folded).dump()));
  CHECK(read.norm.kind == NormSpec::Kind::kLayer);
  CHECK(read.norm.bias);
  CHECK(read.norm.gain_offset == 0);
  CHECK(read.biases.query);
  CHECK(!read.biases.key);
  CHECK(!read.biases.value);
  CHECK(read.biases.attention_output);
  CHECK(!read.biases.latent);
  CHECK(read.biases.mixer_input);
  CHECK(!read.biases.mixer_output);
  CHECK(read.biases.up);
  CHECK(!read.biases.down);
  CHECK(read.biases.head);
  CHECK(read.norm.epsilon == 1e-3);
  CHECK(read.layers.size() == 4);

  folded.norm = {};
  CHECK(read_into(original, written_spec(folded)).norm.kind == NormSpec::Kind::kRms);
}

TEST_CASE("files that lack a newer flag get the family's value") {
  ModelSpec family;
  family.head_transform = Activation::kGelu;
  const json without = written_spec(family);
  json written = without;
  for (const char* field : {"head_transform", "router"}) written["biases"].erase(field);
  family.biases.head_transform = true;
  CHECK(read_into(family, written).biases.head_transform);
  CHECK(!read_into(family, written).biases.router);
  CHECK(!read_into(family, without).biases.head_transform);
}

TEST_CASE("a classifier's function and prompts of vectors are written and read back") {
  ModelSpec family;
  family.classifier = ClassifierSpec{.labels = {"a"}};
  ModelSpec original = family;
  original.classifier->function = ClassifierSpec::Function::kSoftmax;
  original.text_vectors = TextVectorSpec{.prompts = {{"passage", "p: "}, {"query", "q: "}}, .default_prompt = "query"};
  const ModelSpec read = read_into(family, json::parse(written_spec(original).dump()));
  CHECK(read.classifier == original.classifier);
  CHECK(read.text_vectors == original.text_vectors);
  CHECK(read_into(family, written_spec(ModelSpec{})).classifier == family.classifier);
  CHECK(refusal("classifier", {{"function", "none"}}) ==
        "config.json: ballast: classifier.function: config.json names no class with a classifier");
}

TEST_CASE("the tokens of a decoder's score are written and read back") {
  ModelSpec family;
  family.vocab_size = 10;
  ModelSpec original = family;
  original.classifier =
      ClassifierSpec{.labels = {"LABEL_0"},
                     .pooling = Pooling::kLast,
                     .function = ClassifierSpec::Function::kSigmoid,
                     .token_score = TokenScoreSpec{
                         .token = 9, .other_token = 2, .instruction = "judge", .template_arguments = R"({"a":1})"}};
  const json written = json::parse(written_spec(original).dump());
  CHECK(read_into(family, written).classifier == original.classifier);
  const auto refused = [&](const char* field, const json& value) {
    json changed = written;
    changed["classifier"][field] = value;
    return error_message([&] { read_into(family, changed); });
  };
  CHECK(refused("token", 10) == test::Contains("ballast: classifier.token: "));
  CHECK(refused("function", "relu") ==
        "config.json: ballast: classifier.function: must be 'none', 'sigmoid' or 'softmax'");
  CHECK(refused("template_arguments", "[1]") ==
        "config.json: ballast: classifier.template_arguments: is no JSON object");
  CHECK(refused("template_arguments", R"({"add_generation_prompt": 3})") ==
        test::Contains("template_arguments: add_generation_prompt"));
}

TEST_CASE("in files without its flag, the output gate has a bias if the queries have one") {
  ModelSpec family;
  family.layers = {{.mixer = AttentionSpec{.output_gate = true}, .mlp = {}}};
  ModelSpec folded = family;
  folded.biases.query = true;
  const json written = written_spec(folded);
  json without = written;
  without["biases"].erase("output_gate");
  CHECK(!read_into(family, written).biases.output_gate);
  CHECK(read_into(family, without).biases.output_gate);
  family.layers[0].attention()->output_gate = false;
  CHECK(!read_into(family, without).biases.output_gate);
}

TEST_CASE("the written description of dense modules must agree with their files") {
  ModelSpec spec;
  spec.text_vectors = TextVectorSpec{.pooling = Pooling::kFirst, .dense = {{.folder = "2_Dense"}, {.folder = "3"}}};
  const json written = written_spec(spec);
  CHECK(*read_into(spec, written).text_vectors == *spec.text_vectors);
  CHECK(error_message([&] { read_into(ModelSpec{}, written); }) ==
        "config.json: ballast: text_vectors.dense_modules: says 2, but modules.json beside it names 0: files of the "
        "model are missing");
}

TEST_CASE("an invalid written spec is refused by field") {
  CHECK(refusal("version", 2) == "config.json: ballast: version: is 2, this program reads version 1");
  CHECK(refusal("version", nullptr) == "config.json: ballast: version: missing");
  CHECK(refusal("norm", "batch") == "config.json: ballast: norm: must be 'rms' or 'layer'");
  CHECK(refusal("norm_bias", 1) == "config.json: ballast: norm_bias: must be true or false, is 1");
  CHECK(refusal("biases", nullptr) == "config.json: ballast: biases: missing");
  CHECK(refusal("biases", {{"query", "yes"}}) ==
        "config.json: ballast: biases.query: must be true or false, is \"yes\"");
  CHECK(refusal("biases", {{"query", true}}) == "config.json: ballast: biases.key: missing");
}

TEST_CASE("massive tokens are a list of ids, or unknown") {
  const auto read = [](const json& config) {
    return read_massive_tokens(files::JsonReader(config, "config.json: ballast"));
  };
  CHECK(!read(json::object()).has_value());
  CHECK(read({{"massive_tokens", json::array()}})->empty());
  CHECK(*read({{"massive_tokens", {-1, 198}}}) == std::vector<int>{-1, 198});
  CHECK(error_message([&] { read({{"massive_tokens", 5}}); }) ==
        "config.json: ballast: massive_tokens: must be a list, is 5");
  CHECK(error_message([&] { read({{"massive_tokens", {1.5}}}); }) ==
        "config.json: ballast: massive_tokens[0]: must be a whole number, is 1.5");
}

}  // namespace
}  // namespace ballast::model
