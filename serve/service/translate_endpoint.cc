// The endpoint that writes texts from source texts with beam search, many at once.
#include <algorithm>
#include <memory>
#include <utility>

#include "engine/translator.h"
#include "files/text.h"
#include "kernels/attention/key_value_pages.h"
#include "kernels/parallel.h"
#include "serve/api/json_text.h"
#include "serve/api/openai_format.h"
#include "serve/api/translate_format.h"
#include "serve/service/request_memory.h"
#include "serve/service/service.h"

namespace ballast::serve {
namespace {

// Requests that are being translated, or wait for it.
constexpr std::size_t kMostTranslations = 64;

/// The client has left, or the server ends.
struct Cancelled {};

/// Returns the bytes of the texts that run at once: logits, scores, keys and values of all beams, and what the encoder
/// made of the source texts.
std::size_t running_bytes(const ReadyModel& model, const TranslateOptions& options) {
  const model::Model& loaded = model.loaded.model;
  const std::size_t context = loaded.context_length();
  const std::size_t tokens = options.max_tokens == 0 ? context : std::min(options.max_tokens, context);
  const std::size_t of_beam =
      2 * sizeof(float) * loaded.spec().vocab_size + (kernels::pages_for(tokens) + 1) * model.scheduler.page_bytes();
  return options.texts_at_once * (options.beams * of_beam + context * loaded.source_token_bytes());
}

/// Reduces the number of texts that run at once until they take a share of the memory for texts.
void fit_memory(const ReadyModel& model, std::size_t texts, TranslateOptions& options) {
  constexpr std::size_t kShare = 4;
  options.texts_at_once = std::min(options.texts_at_once, texts);
  while (options.texts_at_once > 1 && running_bytes(model, options) > model.scheduler.cache_bytes() / kShare) {
    options.texts_at_once /= 2;
  }
}

}  // namespace

void Service::translate(const Call& call) {
  const engine::LoadedModel& loaded = call.model->loaded;
  if (!loaded.model.spec().encoder) {
    throw ApiError(400, files::concat("the model ", call.model->name, " has no encoder that reads a source text"),
                   "model");
  }
  TranslateRequest asked = read_translate(call.fields, loaded.translate_defaults);
  asked.options.cache_type = call.model->cache_type;
  fit_memory(*call.model, asked.texts.size(), asked.options);
  hold(*call.exchange,
       body_bytes(call.exchange->request().body, kTextCopies) + running_bytes(*call.model, asked.options));
  if (translations_.load() >= kMostTranslations) {
    count_rejection("queue_full");
    throw ApiError(429, files::concat(kMostTranslations, " translations are waiting already")).with_retry_after(1);
  }
  const std::shared_ptr<void> counted(nullptr, [this](void*) { --translations_; });
  ++translations_;
  const auto left = std::make_shared<std::atomic<bool>>(false);
  call.exchange->on_gone([left] { left->store(true); });
  // The steps of a search may take long, so no thread that others need runs them.
  const auto strand = std::make_shared<Strand>(translating_);
  const auto work = [this, counted, left, exchange = call.exchange, model = call.model, asked = std::move(asked)] {
    kernels::set_available_threads(compute_threads_.load());
    const auto check_cancelled = [&](std::string_view, std::size_t, std::size_t) {
      if (left->load() || ending_.load()) throw Cancelled();
    };
    try {
      check_cancelled({}, 0, 0);
      const std::vector<Translation> written =
          engine::translate_texts(model->loaded, asked.texts, asked.options, check_cancelled);
      exchange->respond({.body = json_text(translations_json(model->name, written))});
    } catch (const Cancelled&) {
      exchange->respond(ApiError(503, "the server is going down").response(error_form(exchange->request().path)));
    } catch (const Error& error) {
      exchange->respond(ApiError(400, error.what()).response(error_form(exchange->request().path)));
    } catch (const std::exception& error) {
      exchange->respond(ApiError(500, error.what()).response(error_form(exchange->request().path)));
    }
  };
  strand->post(work);
}

}  // namespace ballast::serve
