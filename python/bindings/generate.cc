#include "ballast/generate.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/model.h"
#include "python/bindings/arrays.h"
#include "python/bindings/bindings.h"
#include "python/bindings/call.h"
#include "python/bindings/held_adapter.h"

namespace ballast::python {
namespace {

const char* kind_name(ReplyKind kind) {
  switch (kind) {
    case ReplyKind::kThinking:
      return "thinking";
    case ReplyKind::kToolName:
      return "tool_name";
    case ReplyKind::kToolArguments:
      return "tool_arguments";
    case ReplyKind::kBrokenCall:
      return "broken_call";
    default:
      return "answer";
  }
}

nb::bytes bytes_of(const std::string& text) {
  return nb::bytes(text.data(), text.size());
}

/// Passes each step to `on_step(text, kind, call) -> bool` unless that is None, and handles signals. An exception from
/// either ends the generation.
class StepListener {
 public:
  explicit StepListener(nb::object on_step) : on_step_(std::move(on_step)) {}
  StepListener(const StepListener&) = delete;
  StepListener& operator=(const StepListener&) = delete;

  OnGenerateStep callback() {
    return [this](const GenerateStep& step) {
      try {
        check_();
        return on_step_.is_none() || told(step);
      } catch (...) {
        failure_ = std::current_exception();
        return false;
      }
    };
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  bool told(const GenerateStep& step) {
    const nb::gil_scoped_acquire acquired;
    return nb::cast<bool>(on_step_(nb::str(step.text.data(), step.text.size()), kind_name(step.kind), step.call));
  }

  nb::object on_step_;
  SignalCheck check_;
  std::exception_ptr failure_{};
};

template <class Generate>
GenerateResult listened(nb::object on_step, const Generate& generate) {
  StepListener listener(std::move(on_step));
  GenerateResult result = without_lock([&] { return generate(listener.callback()); });
  listener.rethrow();
  return result;
}

GenerateResult continue_ids(Generator& generator, const IdArray& ids, const GenerateOptions& options,
                            nb::object on_step) {
  return listened(std::move(on_step),
                  [&](const OnGenerateStep& callback) { return generator.generate(ids_of(ids), options, callback); });
}

GenerateResult continue_text(Generator& generator, std::string_view text, const GenerateOptions& options,
                             nb::object on_step) {
  return listened(std::move(on_step),
                  [&](const OnGenerateStep& callback) { return generator.generate(text, options, callback); });
}

GenerateResult answer(Generator& generator, const std::vector<ChatMessage>& messages, const GenerateOptions& options,
                      nb::object on_step) {
  return listened(std::move(on_step),
                  [&](const OnGenerateStep& callback) { return generator.chat(messages, options, callback); });
}

/// Returns log-probabilities of ids[first] and the later ones, and the most likely ids in their positions.
nb::tuple scored(Generator& generator, const IdArray& ids, std::size_t first, const CacheOptions& cache) {
  const std::vector<GeneratedToken> scores =
      without_lock([&] { return generator.score(ids_of(ids), first, /*top=*/1, cache); });
  std::vector<double> log_probabilities;
  std::vector<int> likeliest;
  for (const GeneratedToken& score : scores) {
    log_probabilities.push_back(score.logprob);
    likeliest.push_back(score.top.front().id);
  }
  return nb::make_tuple(owned_array(std::move(log_probabilities)), owned_array(std::move(likeliest)));
}

void bind_generate_options(nb::module_& module) {
  using nb::literals::operator""_a;
  nb::class_<LogitBias>(module, "LogitBias")
      .def(
          "__init__", [](LogitBias* place, int id, float bias) { new (place) LogitBias{.id = id, .bias = bias}; },
          "id"_a, "bias"_a);
  nb::enum_<Constraint::Kind>(module, "ConstraintKind")
      .value("json_object", Constraint::Kind::kJsonObject)
      .value("json_schema", Constraint::Kind::kJsonSchema)
      .value("regex", Constraint::Kind::kRegex)
      .value("choice", Constraint::Kind::kChoice)
      .value("grammar", Constraint::Kind::kGrammar)
      .value("structural_tag", Constraint::Kind::kStructuralTag);
  nb::class_<Constraint>(module, "Constraint")
      .def(
          "__init__",
          [](Constraint* place, Constraint::Kind kind, std::string text, std::vector<std::string> choices) {
            new (place) Constraint{.kind = kind, .text = std::move(text), .choices = std::move(choices)};
          },
          "kind"_a, "text"_a, "choices"_a);
  nb::class_<GenerateOptions>(module, "GenerateOptions")
      .def(nb::init<>())
      .def_rw("max_tokens", &GenerateOptions::max_tokens)
      .def_rw("temperature", &GenerateOptions::temperature)
      .def_rw("top_k", &GenerateOptions::top_k)
      .def_rw("top_p", &GenerateOptions::top_p)
      .def_rw("min_p", &GenerateOptions::min_p)
      .def_rw("repetition_penalty", &GenerateOptions::repetition_penalty)
      .def_rw("presence_penalty", &GenerateOptions::presence_penalty)
      .def_rw("frequency_penalty", &GenerateOptions::frequency_penalty)
      .def_rw("penalty_window", &GenerateOptions::penalty_window, nb::arg().none())
      .def_rw("allowed_tokens", &GenerateOptions::allowed_tokens)
      .def_rw("forbidden_sequences", &GenerateOptions::forbidden_sequences)
      .def_rw("logit_bias", &GenerateOptions::logit_bias)
      .def_rw("constraint", &GenerateOptions::constraint)
      .def_rw("seed", &GenerateOptions::seed)
      .def_rw("stop", &GenerateOptions::stop)
      .def_rw("stop_tokens", &GenerateOptions::stop_tokens)
      .def_rw("source_language", &GenerateOptions::source_language)
      .def_rw("target_language", &GenerateOptions::target_language)
      .def_rw("ignore_eos", &GenerateOptions::ignore_eos)
      .def_rw("show_stop", &GenerateOptions::show_stop)
      .def_rw("show_special_tokens", &GenerateOptions::show_special_tokens)
      .def_rw("min_tokens", &GenerateOptions::min_tokens)
      .def_rw("draft_tokens", &GenerateOptions::draft_tokens)
      .def_rw("logprobs", &GenerateOptions::logprobs, nb::arg().none())
      .def_rw("template_arguments", &GenerateOptions::template_arguments)
      .def_rw("reply_format", &GenerateOptions::reply_format)
      .def_rw("tools", &GenerateOptions::tools)
      .def_prop_rw(
          "adapter", [](const GenerateOptions& options) { return HeldAdapter{options.adapter}; },
          [](GenerateOptions& options, const HeldAdapter& held) { options.adapter = held.adapter; })
      .def_rw("cache", &GenerateOptions::cache);
}

void bind_generate_result(nb::module_& module) {
  nb::class_<TokenLogprob>(module, "TokenLogprob")
      .def_ro("id", &TokenLogprob::id)
      .def_ro("logprob", &TokenLogprob::logprob);
  nb::class_<GeneratedToken>(module, "GeneratedToken")
      .def_ro("id", &GeneratedToken::id)
      .def_ro("logprob", &GeneratedToken::logprob)
      .def_ro("top", &GeneratedToken::top);
  nb::enum_<GenerateResult::Finish>(module, "Finish")
      .value("stop", GenerateResult::Finish::kStop)
      .value("length", GenerateResult::Finish::kLength)
      .value("cancelled", GenerateResult::Finish::kCancelled);
  nb::class_<GenerateResult>(module, "GenerateResult")
      .def_ro("finish", &GenerateResult::finish)
      .def_prop_ro("text", [](const GenerateResult& result) { return bytes_of(result.text); })
      .def_prop_ro("thinking", [](const GenerateResult& result) { return bytes_of(result.thinking); })
      .def_prop_ro("tool_calls",
                   [](const GenerateResult& result) {
                     nb::list calls;
                     for (const ToolCall& call : result.tool_calls) {
                       calls.append(nb::make_tuple(bytes_of(call.name), bytes_of(call.arguments)));
                     }
                     return calls;
                   })
      .def_ro("tokens", &GenerateResult::tokens)
      .def_ro("prompt_tokens", &GenerateResult::prompt_tokens)
      .def_ro("cached_tokens", &GenerateResult::cached_tokens)
      .def_ro("draft_tokens", &GenerateResult::draft_tokens)
      .def_ro("accepted_tokens", &GenerateResult::accepted_tokens)
      .def_ro("prompt_seconds", &GenerateResult::prompt_seconds)
      .def_ro("seconds", &GenerateResult::seconds);
}

}  // namespace

void bind_generate(nb::module_& module) {
  using nb::literals::operator""_a;
  bind_generate_options(module);
  bind_generate_result(module);
  nb::class_<Generator>(module, "Generator")
      .def(nb::init<const Model&>(), "model"_a)
      .def(nb::init<const Model&, const Model&>(), "model"_a, "draft"_a)
      .def("generate", &continue_text, "prompt"_a, "options"_a, "on_step"_a.none())
      .def("generate_ids", &continue_ids, "prompt"_a, "options"_a, "on_step"_a.none())
      .def("chat", &answer, "messages"_a, "options"_a, "on_step"_a.none())
      .def("score", &scored, "ids"_a, "first"_a, "cache"_a);
}

}  // namespace ballast::python
