#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "described.h"
#include "layers.h"

namespace ballast::model::classifier_test {

using nlohmann::json;
using test::described;
using test::refusal_of_field;
using test::with_field;
using Function = ClassifierSpec::Function;

const json kBert = {{"model_type", "bert"},
                    {"num_hidden_layers", 2},
                    {"hidden_size", 32},
                    {"num_attention_heads", 4},
                    {"intermediate_size", 40},
                    {"vocab_size", 10},
                    {"architectures", {"BertForSequenceClassification"}}};

json of_family(const char* type, const char* name) {
  return with_field(with_field(kBert, "model_type", type), "architectures", {std::string(name)});
}

TEST_CASE("a classifier of texts has the family's transform, and one of tokens has none") {
  struct Family {
    const char* type;
    std::string name;
    Activation transform;
  };
  for (const auto& [type, name, transform] : {Family{"bert", "Bert", Activation::kTanh},
                                              {"roberta", "Roberta", Activation::kTanh},
                                              {"electra", "Electra", Activation::kGelu},
                                              {"mpnet", "MPNet", Activation::kTanh},
                                              {"nomic_bert", "NomicBert", Activation::kTanh},
                                              {"gte", "Gte", Activation::kTanh}}) {
    CAPTURE(type);
    json config = of_family(type, (name + "ForSequenceClassification").c_str());
    config["embedding_size"] = 32;
    const ModelSpec texts = described(config);
    REQUIRE(texts.classifier);
    CHECK_FALSE(texts.has_head);
    CHECK_FALSE(texts.classifier->of_tokens);
    CHECK(texts.classifier->transform == transform);
    CHECK(texts.classifier->pooling == Pooling::kFirst);
    CHECK(texts.biases.classifier);
    CHECK(texts.biases.classifier_transform);
    config["architectures"] = {name + "ForTokenClassification"};
    const ModelSpec tokens = described(config);
    REQUIRE(tokens.classifier);
    CHECK(tokens.classifier->of_tokens);
    CHECK_FALSE(tokens.classifier->transform);
    CHECK(tokens.classifier->function == Function::kSoftmax);
  }
}

TEST_CASE("labels have the configuration's names, or numbers") {
  CHECK(described(kBert).classifier->labels == std::vector<std::string>{"LABEL_0", "LABEL_1"});
  const json named = with_field(kBert, "id2label", {{"1", "good"}, {"0", "bad"}, {"2", "so so"}});
  CHECK(described(named).classifier->labels == std::vector<std::string>{"bad", "good", "so so"});
  CHECK(refusal_of_field(kBert, "id2label", {{"0", "bad"}, {"2", "good"}}) == "config.json: id2label.1: missing");
  CHECK(refusal_of_field(kBert, "id2label", json::object()) == "config.json: id2label: has no labels");
}

TEST_CASE("the function of scores follows from the problem and the number of labels") {
  CHECK(described(kBert).classifier->function == Function::kSoftmax);
  CHECK(described(with_field(kBert, "id2label", {{"0", "score"}})).classifier->function == Function::kSigmoid);
  const auto of_problem = [](const char* problem) {
    return described(with_field(kBert, "problem_type", problem)).classifier->function;
  };
  CHECK(of_problem("multi_label_classification") == Function::kSigmoid);
  CHECK(of_problem("single_label_classification") == Function::kSoftmax);
  CHECK(of_problem("regression") == Function::kNone);
}

TEST_CASE("ModernBERT's and EuroBERT's classifiers pool as their configuration says") {
  json modern = of_family("modernbert", "ModernBertForSequenceClassification");
  ClassifierSpec classifier = *described(modern).classifier;
  CHECK(classifier.pooling == Pooling::kFirst);
  CHECK(classifier.transform == Activation::kGelu);
  CHECK(classifier.transform_norm);
  CHECK_FALSE(described(modern).biases.classifier_transform);
  CHECK(described(with_field(modern, "classifier_pooling", "mean")).classifier->pooling == Pooling::kMean);
  CHECK(refusal_of_field(modern, "classifier_pooling", "max") ==
        "config.json: classifier_pooling: 'max' is not supported; supported: mean, cls");

  const json euro = of_family("eurobert", "EuroBertForSequenceClassification");
  classifier = *described(euro).classifier;
  CHECK(classifier.pools_scores);
  CHECK(classifier.pooling == Pooling::kMean);
  classifier = *described(with_field(euro, "classifier_pooling", "bos")).classifier;
  CHECK_FALSE(classifier.pools_scores);
  CHECK(classifier.pooling == Pooling::kFirst);
}

TEST_CASE("DeBERTa's scores have as many parts as its kinds of attention by position") {
  json config = of_family("deberta-v2", "DebertaV2ForTokenClassification");
  CHECK_FALSE(test::attention_of(described(config)).disentangled);
  CHECK(described(config).learned_positions);
  CHECK(described(config).token_types == 0);
  config["relative_attention"] = true;
  config["position_biased_input"] = false;
  config["position_buckets"] = 256;
  config["max_relative_positions"] = -1;
  config["norm_rel_ebd"] = "layer_norm";
  config["share_att_key"] = true;
  config["pos_att_type"] = "p2c|c2p";
  const ModelSpec spec = described(config);
  CHECK_FALSE(spec.learned_positions);
  const AttentionSpec& attention = test::attention_of(spec);
  REQUIRE(attention.disentangled);
  CHECK(
      *attention.disentangled ==
      DisentangledSpec{.span = 256, .reach = 512, .keys_by_distance = true, .queries_by_distance = true, .norm = true});
  CHECK(attention.scale == doctest::Approx(1 / std::sqrt(8.0 * 3)));
  config["pos_att_type"] = {"c2p"};
  CHECK_FALSE(test::attention_of(described(config)).disentangled->queries_by_distance);
  CHECK(refusal_of_field(config, "pos_att_type", "c2p|p2p") ==
        "config.json: pos_att_type: 'p2p' is not supported; supported: c2p, p2c");
  CHECK(refusal_of_field(config, "share_att_key", false) == "config.json: share_att_key: false is not supported");
  CHECK(refusal_of_field(config, "conv_kernel_size", 3) ==
        "config.json: conv_kernel_size: a convolution is not supported");
}

TEST_CASE("distances near a query have rows of their own, and far ones share the last") {
  const DisentangledSpec all = {.span = 4};
  for (std::int64_t distance = -4; distance < 4; ++distance) {
    CHECK(all.row(distance) == static_cast<std::size_t>(distance + 4));
  }
  CHECK(all.row(9) == 7);
  CHECK(all.row(-9) == 0);
  // Of transformers' make_log_bucket_position with 8 buckets and 20 positions.
  const DisentangledSpec shared = {.span = 8, .reach = 20};
  const std::vector<std::size_t> rows = {8, 9, 10, 11, 12, 13, 13, 14, 14, 14, 14};
  for (std::size_t distance = 0; distance < rows.size(); ++distance) {
    CAPTURE(distance);
    CHECK(shared.row(static_cast<std::int64_t>(distance)) == rows[distance]);
  }
}

TEST_CASE("other classes of encoders are refused") {
  CHECK(refusal_of_field(kBert, "architectures", {"BertForQuestionAnswering"}) ==
        "config.json: architectures: 'BertForQuestionAnswering' is not supported; supported: BertModel, "
        "BertForMaskedLM, BertForSequenceClassification, BertForTokenClassification");
}

}  // namespace ballast::model::classifier_test
