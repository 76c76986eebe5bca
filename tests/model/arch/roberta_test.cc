#include <doctest/doctest.h>

#include <cmath>

#include "described.h"
#include "layers.h"

namespace ballast::model::roberta_test {

using nlohmann::json;
using test::described;
using test::with_field;

const json kConfig = {{"model_type", "roberta"},       {"num_hidden_layers", 2},  {"hidden_size", 32},
                      {"num_attention_heads", 4},      {"intermediate_size", 40}, {"vocab_size", 10},
                      {"max_position_embeddings", 514}};
const json kDistilbertConfig = {{"model_type", "distilbert"}, {"n_layers", 2},   {"dim", 32}, {"n_heads", 4},
                                {"hidden_dim", 40},           {"vocab_size", 10}};

void check_bert_like(const ModelSpec& spec) {
  CHECK(spec.layout == BlockLayout::kPostNorm);
  CHECK(spec.norm.kind == NormSpec::Kind::kLayer);
  CHECK(spec.norm.bias);
  CHECK(spec.norm.epsilon == 1e-12);
  CHECK(!spec.causal);
  CHECK(spec.learned_positions);
  CHECK(spec.embedding_norm);
  CHECK(spec.tied_embeddings);
  CHECK(spec.has_head);
  CHECK(spec.head_transform == Activation::kGelu);
  CHECK(!test::mlp_of(spec).gated);
  CHECK(test::mlp_of(spec).activation == Activation::kGelu);
  CHECK(test::mlp_of(spec).size == 40);
  for (const bool bias : {spec.biases.query, spec.biases.key, spec.biases.value, spec.biases.attention_output,
                          spec.biases.up, spec.biases.down, spec.biases.head, spec.biases.head_transform}) {
    CHECK(bias);
  }
}

TEST_CASE("RoBERTa's positions begin after the padding token's, and its relatives differ only in the classes' names") {
  for (const char* type : {"roberta", "xlm-roberta", "camembert"}) {
    const ModelSpec spec = described(with_field(kConfig, "model_type", type));
    check_bert_like(spec);
    CHECK(spec.first_position == 2);
    CHECK(spec.context_length == 512);
    CHECK(spec.token_types == 2);
  }
  const ModelSpec shifted = described(with_field(kConfig, "pad_token_id", 0));
  CHECK(shifted.first_position == 1);
  CHECK(shifted.context_length == 513);
  json bare = with_field(kConfig, "model_type", "xlm-roberta");
  CHECK(!described(with_field(bare, "architectures", {"XLMRobertaModel"})).has_head);
  CHECK(test::refusal_of_field(bare, "architectures", {"RobertaModel"}) ==
        "config.json: architectures: 'RobertaModel' is not supported; supported: XLMRobertaModel, "
        "XLMRobertaForMaskedLM, XLMRobertaForSequenceClassification, XLMRobertaForTokenClassification");
}

TEST_CASE("MPNet has biases by distance and no token types") {
  const ModelSpec spec = described(with_field(kConfig, "model_type", "mpnet"));
  check_bert_like(spec);
  CHECK(spec.token_types == 0);
  CHECK(spec.first_position == 2);
  CHECK(test::attention_of(spec).relative_bias == RelativeBiasSpec{.buckets = 32, .reach = 128});
}

TEST_CASE("DistilBERT has field names of its own, and no token types") {
  const ModelSpec spec = described(kDistilbertConfig);
  check_bert_like(spec);
  CHECK(spec.token_types == 0);
  CHECK(spec.first_position == 0);
  CHECK(spec.context_length == 512);
  CHECK(!described(with_field(kDistilbertConfig, "architectures", {"DistilBertModel"})).has_head);
}

TEST_CASE("settings of RoBERTa, MPNet and DistilBERT that are not supported are refused by field") {
  const auto refusal = [](const char* field, const json& value) {
    return test::refusal_of_field(kConfig, field, value);
  };
  CHECK(refusal("is_decoder", true) == "config.json: is_decoder: true is not supported");
  CHECK(refusal("position_embedding_type", "relative_key") ==
        "config.json: position_embedding_type: 'relative_key' is not supported; supported: absolute");
  CHECK(refusal("max_position_embeddings", 2) ==
        "config.json: max_position_embeddings: leaves no position after the 2 of padding");
  CHECK(refusal("architectures", {"RobertaForQuestionAnswering"}) ==
        test::Contains("architectures: 'RobertaForQuestionAnswering' is not supported"));
  CHECK(test::refusal_of_field(with_field(kConfig, "model_type", "mpnet"), "relative_attention_num_buckets", 8) ==
        "config.json: relative_attention_num_buckets: is not 32");
  CHECK(test::refusal_of_field(kDistilbertConfig, "architectures", {"DistilBertForQuestionAnswering"}) ==
        test::Contains("architectures: 'DistilBertForQuestionAnswering' is not supported"));
}

TEST_CASE("buckets of distances are those of the plain definition") {
  const RelativeBiasSpec spec = {.buckets = 32, .reach = 128};
  for (std::int64_t distance = -600; distance <= 600; ++distance) {
    CAPTURE(distance);
    const auto tokens = static_cast<double>(std::abs(distance));
    // 8 buckets for the factor 16 from 8 to 128; what is added keeps a distance at a border on its upper side.
    double within = tokens;
    if (tokens >= 8) within = std::min(15.0, 8 + std::floor(std::log2(tokens / 8) * 2 + 1e-9));
    CHECK(spec.bucket(distance) == static_cast<std::size_t>(within) + (distance > 0 ? 16U : 0U));
  }
}

}  // namespace ballast::model::roberta_test
