#include "ballast/model.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "python/bindings/arrays.h"
#include "python/bindings/bindings.h"
#include "python/bindings/call.h"
#include "python/bindings/held_adapter.h"

namespace ballast::python {
namespace {

void load_model(Model* place, const std::filesystem::path& path, ModelOptions options, nb::object on_message) {
  JobListener listener(nb::none(), std::move(on_message));
  options.tell = listener.message();
  without_lock([&] { new (place) Model(path, options); });
}

NumpyArray<float> logits_of(const Model& model, const IdArray& ids, const HeldAdapter* adapter) {
  Tensor logits = without_lock([&] { return model.logits(ids_of(ids), adapter_of(adapter)); });
  return owned_array(std::move(logits.values), {ids.size(), model.spec().vocab_size});
}

NumpyArray<float> activations_of(const Model& model, const IdArray& ids, std::size_t layer) {
  Tensor rows = without_lock([&] { return model.activations(ids_of(ids), layer); });
  return owned_array(std::move(rows.values), {ids.size(), model.spec().hidden_size});
}

NumpyArray<double> log_probabilities_of(const Model& model, const IdArray& ids) {
  return owned_array(without_lock([&] { return model.log_probabilities(ids_of(ids)); }));
}

NumpyArray<float> vectors_of(const Model& model, const std::vector<std::string>& texts, const EmbedOptions& options,
                             nb::object on_progress) {
  JobListener listener(std::move(on_progress), nb::none());
  TextVectors vectors = without_lock([&] { return model.embed(texts, options, listener.progress()); });
  return owned_array(std::move(vectors.values), {texts.size(), vectors.size});
}

/// Returns the words' weights of each text.
std::vector<WordWeights> word_weights_of(const Model& model, const std::vector<std::string>& texts,
                                         const EmbedOptions& options, nb::object on_progress) {
  JobListener listener(std::move(on_progress), nb::none());
  return without_lock([&] { return model.embed_sparse(texts, options, listener.progress()); });
}

/// Returns an array [tokens, size] for each text.
nb::list token_vectors_of(const Model& model, const std::vector<std::string>& texts, const EmbedOptions& options,
                          nb::object on_progress) {
  JobListener listener(std::move(on_progress), nb::none());
  TokenVectors vectors = without_lock([&] { return model.embed_tokens(texts, options, listener.progress()); });
  nb::list arrays;
  for (std::vector<float>& text : vectors.texts) {
    const std::size_t tokens = text.size() / vectors.size;
    arrays.append(owned_array(std::move(text), {tokens, vectors.size}));
  }
  return arrays;
}

nb::str text_of(const std::string& bytes) {
  return nb::steal<nb::str>(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
}

std::vector<std::string> labels_of(const ModelSpec& spec) {
  return spec.classifier ? spec.classifier->labels : std::vector<std::string>();
}

/// Returns {"labels", "scores", "tokens", "first"}: the scores of all texts are [rows][labels], and those of text i
/// begin at row first[i].
nb::dict scores_of(const Classification& classification) {
  std::vector<float> scores;
  std::vector<std::size_t> first;
  nb::list tokens;
  const std::size_t labels = classification.labels.size();
  for (const TextScores& text : classification.texts) {
    first.push_back(scores.size() / labels);
    scores.insert(scores.end(), text.scores.begin(), text.scores.end());
    nb::list of_text;
    for (const std::string& token : text.tokens) of_text.append(text_of(token));
    tokens.append(of_text);
  }
  const std::size_t rows = scores.size() / labels;
  nb::dict result;
  result["labels"] = classification.labels;
  result["scores"] = owned_array(std::move(scores), {rows, labels});
  result["tokens"] = tokens;
  result["first"] = first;
  return result;
}

nb::dict classified(const Model& model, const std::vector<std::string>& texts, const ClassifyOptions& options,
                    nb::object on_progress) {
  JobListener listener(std::move(on_progress), nb::none());
  return scores_of(without_lock([&] { return model.classify(texts, options, listener.progress()); }));
}

nb::dict classified_pairs(const Model& model, const std::vector<std::pair<std::string, std::string>>& texts,
                          const ClassifyOptions& options, nb::object on_progress) {
  std::vector<TextPair> pairs;
  for (const auto& [first, second] : texts) pairs.push_back({.first = first, .second = second});
  JobListener listener(std::move(on_progress), nb::none());
  return scores_of(without_lock([&] { return model.classify(pairs, options, listener.progress()); }));
}

NumpyArray<float> ranked(const Model& model, const std::string& query, const std::vector<std::string>& documents,
                         const ClassifyOptions& options, nb::object on_progress) {
  JobListener listener(std::move(on_progress), nb::none());
  return owned_array(without_lock([&] { return model.rerank(query, documents, options, listener.progress()); }).scores);
}

/// Returns each source text's results, the best first: [(text, tokens, score)].
nb::list written_texts(const std::vector<Translation>& translations) {
  nb::list all;
  for (const Translation& translation : translations) {
    nb::list texts;
    for (const WrittenText& text : translation.texts) {
      texts.append(nb::make_tuple(text_of(text.text), text.tokens, text.score));
    }
    all.append(texts);
  }
  return all;
}

template <class Source>
nb::list translated(const Model& model, const std::vector<Source>& sources, const TranslateOptions& options,
                    nb::object on_progress) {
  JobListener listener(std::move(on_progress), nb::none());
  return written_texts(
      without_lock([&] { return model.translate(std::span<const Source>(sources), options, listener.progress()); }));
}

nb::str decoded(const Model& model, const IdArray& ids) {
  return text_of(model.decode(ids_of(ids)));
}

nb::bytes bytes_of_token(const Model& model, int id) {
  const std::string bytes = model.token_bytes(id);
  return nb::bytes(bytes.data(), bytes.size());
}

/// Returns the values by the names of GenerateOptions, without those that the model does not set.
nb::dict defaults_of(const Model& model) {
  const GenerationDefaults& defaults = model.generation_defaults();
  nb::dict values;
  const auto add = [&](const char* name, const auto& value) {
    if (value) values[name] = *value;
  };
  add("temperature", defaults.temperature);
  add("top_k", defaults.top_k);
  add("top_p", defaults.top_p);
  add("min_p", defaults.min_p);
  add("repetition_penalty", defaults.repetition_penalty);
  return values;
}

void bind_chat_and_vectors(nb::module_& module) {
  using nb::literals::operator""_a;
  nb::class_<ChatMessage>(module, "ChatMessage")
      .def(
          "__init__",
          [](ChatMessage* place, std::string role, std::string content, std::string fields) {
            new (place)
                ChatMessage{.role = std::move(role), .content = std::move(content), .fields = std::move(fields)};
          },
          "role"_a, "content"_a, "fields"_a);
  nb::enum_<Pooling>(module, "Pooling")
      .value("mean", Pooling::kMean)
      .value("cls", Pooling::kFirst)
      .value("last", Pooling::kLast);
  nb::class_<EmbedOptions>(module, "EmbedOptions")
      .def(nb::init<>())
      .def_rw("pooling", &EmbedOptions::pooling, nb::arg().none())
      .def_rw("normalized", &EmbedOptions::normalized, nb::arg().none())
      .def_rw("most_tokens", &EmbedOptions::most_tokens, nb::arg().none())
      .def_rw("prompt_name", &EmbedOptions::prompt_name, nb::arg().none())
      .def_rw("dimensions", &EmbedOptions::dimensions, nb::arg().none())
      .def_rw("cache_type", &EmbedOptions::cache_type);
  nb::class_<ClassifyOptions>(module, "ClassifyOptions")
      .def(nb::init<>())
      .def_rw("raw_scores", &ClassifyOptions::raw_scores)
      .def_rw("most_tokens", &ClassifyOptions::most_tokens, nb::arg().none())
      .def_rw("cache_type", &ClassifyOptions::cache_type);
}

void bind_translate_options(nb::module_& module) {
  nb::enum_<TranslateOptions::EarlyStop>(module, "EarlyStop")
      .value("no", TranslateOptions::EarlyStop::kNo)
      .value("yes", TranslateOptions::EarlyStop::kYes)
      .value("never", TranslateOptions::EarlyStop::kNever);
  nb::class_<TranslateOptions>(module, "TranslateOptions")
      .def_rw("source_language", &TranslateOptions::source_language)
      .def_rw("target_language", &TranslateOptions::target_language)
      .def_rw("beams", &TranslateOptions::beams)
      .def_rw("length_penalty", &TranslateOptions::length_penalty)
      .def_rw("early_stop", &TranslateOptions::early_stop)
      .def_rw("no_repeat_ngram", &TranslateOptions::no_repeat_ngram)
      .def_rw("repetition_penalty", &TranslateOptions::repetition_penalty)
      .def_rw("min_tokens", &TranslateOptions::min_tokens)
      .def_rw("max_tokens", &TranslateOptions::max_tokens)
      .def_rw("hypotheses", &TranslateOptions::hypotheses)
      .def_rw("first_tokens", &TranslateOptions::first_tokens)
      .def_rw("forbidden_sequences", &TranslateOptions::forbidden_sequences)
      .def_rw("last_token", &TranslateOptions::last_token, nb::arg().none())
      .def_rw("texts_at_once", &TranslateOptions::texts_at_once)
      .def_rw("cache_type", &TranslateOptions::cache_type);
}

}  // namespace

void bind_model(nb::module_& module) {
  using nb::literals::operator""_a;
  bind_chat_and_vectors(module);
  bind_translate_options(module);
  nb::class_<HeldAdapter>(module, "Adapter");
  nb::class_<Model>(module, "Model")
      .def("__init__", &load_model, "path"_a, "options"_a, "on_message"_a.none())
      .def_prop_ro("path", [](const Model& model) { return model.path(); })
      .def_prop_ro("architecture", [](const Model& model) { return model.spec().architecture; })
      .def_prop_ro("vocab_size", [](const Model& model) { return model.spec().vocab_size; })
      .def_prop_ro("hidden_size", [](const Model& model) { return model.spec().hidden_size; })
      .def_prop_ro("layers", [](const Model& model) { return model.spec().layers.size(); })
      .def_prop_ro("context_length", &Model::context_length)
      .def("encode", &Model::encode, "text"_a, "special_tokens"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("decode", &decoded, "ids"_a)
      .def("token_bytes", &bytes_of_token, "id"_a)
      .def("stop_tokens", &Model::stop_tokens)
      .def_prop_ro("generation_defaults", &defaults_of)
      .def(
          "chat_prompt",
          [](const Model& model, const std::vector<ChatMessage>& messages, const std::string& template_arguments) {
            return model.chat_prompt(messages, template_arguments);
          },
          "messages"_a, "template_arguments"_a, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "load_adapter",
          [](const Model& model, const std::filesystem::path& path, double scale) {
            return without_lock([&] { return HeldAdapter{model.load_adapter({.path = path, .scale = scale})}; });
          },
          "path"_a, "scale"_a)
      .def("logits", &logits_of, "ids"_a, "adapter"_a.none())
      .def("activations", &activations_of, "ids"_a, "layer"_a)
      .def("log_probabilities", &log_probabilities_of, "ids"_a)
      .def("embed", &vectors_of, "texts"_a, "options"_a, "on_progress"_a.none())
      .def("embed_sparse", &word_weights_of, "texts"_a, "options"_a, "on_progress"_a.none())
      .def("embed_tokens", &token_vectors_of, "texts"_a, "options"_a, "on_progress"_a.none())
      .def_prop_ro("labels", [](const Model& model) { return labels_of(model.spec()); })
      .def("classify", &classified, "texts"_a, "options"_a, "on_progress"_a.none())
      .def("classify_pairs", &classified_pairs, "pairs"_a, "options"_a, "on_progress"_a.none())
      .def("rerank", &ranked, "query"_a, "documents"_a, "options"_a, "on_progress"_a.none())
      .def("translate_options", [](const Model& model) { return TranslateOptions(model.translate_defaults()); })
      .def("translate", &translated<std::string>, "texts"_a, "options"_a, "on_progress"_a.none())
      .def("translate_ids", &translated<std::vector<int>>, "sources"_a, "options"_a, "on_progress"_a.none());
}

}  // namespace ballast::python
