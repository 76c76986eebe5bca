#include "serve/service/text_answer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "files/utf8.h"
#include "serve/api/api_error.h"
#include "serve/api/json_text.h"

namespace ballast::serve {

/// Posts the engine's results to the answer's strand.
class TextAnswer::Listener : public RequestListener {
 public:
  Listener(std::shared_ptr<TextAnswer> answer, std::size_t prompt) : answer_(std::move(answer)), prompt_(prompt) {}

  void on_prompt_scored(std::vector<GeneratedToken>&& scores) override {
    post([scores = std::move(scores)](TextAnswer& answer, std::size_t prompt) mutable {
      answer.scored(prompt, std::move(scores));
    });
  }
  void on_token(std::size_t choice, std::vector<ReplyPart>&& parts, const GeneratedToken* token) override {
    post_or_fail(*answer_->strand_, [&] {
      std::optional<GeneratedToken> copy;
      if (token != nullptr) copy = *token;
      post([=, parts = std::move(parts)](TextAnswer& answer, std::size_t prompt) {
        answer.took(prompt, choice, parts, copy);
      });
    });
  }
  void on_choice_end(std::size_t choice, GenerateResult::Finish finish) override {
    post([=](TextAnswer& answer, std::size_t prompt) { answer.choice_ended(prompt, choice, finish); });
  }
  void on_end(const RequestUsage& usage) override {
    post([=](TextAnswer& answer, std::size_t) { answer.ended(usage); });
  }
  void on_failure(Failure failure, const std::string& message) override {
    post_or_fail(*answer_->strand_,
                 [&] { post([=](TextAnswer& answer, std::size_t) { answer.failed(failure, message); }); });
  }

 private:
  template <class Tell>
  void post(Tell tell) noexcept {
    post_or_fail(*answer_->strand_, [&] {
      answer_->strand_->post(
          [answer = answer_, prompt = prompt_, tell = std::move(tell)]() mutable { tell(*answer, prompt); });
    });
  }

  std::shared_ptr<TextAnswer> answer_;
  std::size_t prompt_;
};

TextAnswer::TextAnswer(std::shared_ptr<HttpExchange> exchange, std::shared_ptr<Strand> strand,
                       std::unique_ptr<TextFormat> format, const text::Tokenizer& tokenizer, AnswerHead head)
    : exchange_(std::move(exchange)),
      strand_(std::move(strand)),
      format_(std::move(format)),
      tokenizer_(tokenizer),
      head_(std::move(head)),
      choices_(head_.prompts * head_.choices),
      echoed_(head_.prompts),
      prompt_scores_(head_.prompts),
      open_(head_.prompts) {}

void TextAnswer::echo(std::size_t prompt, const std::string& text, const std::vector<int>& ids) {
  for (std::size_t i = 0; i < head_.choices; ++i) choice(prompt, i).text = text;
  if (head_.logprobs) echoed_[prompt] = ids;
}

std::shared_ptr<RequestListener> TextAnswer::listener(std::size_t prompt) {
  return std::make_shared<Listener>(shared_from_this(), prompt);
}

void TextAnswer::start(std::vector<std::shared_ptr<Ticket>> tickets) {
  end_with_strand(*strand_, exchange_, tickets);
  exchange_->on_gone([tickets] { cancel_all(tickets); });
  tickets_ = std::move(tickets);
  if (!head_.delivery.stream) return;
  exchange_->begin_stream({.content_type = "text/event-stream",
                           .body = {},
                           .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    nlohmann::ordered_json first = format_->first_piece(i);
    if (!first.is_null()) send_event(nlohmann::ordered_json::array({std::move(first)}), false);
  }
}

/// A prompt's first token has no probability.
void TextAnswer::scored(std::size_t prompt, std::vector<GeneratedToken> scores) {
  const std::vector<int>& ids = echoed_[prompt];
  if (head_.prompt_logprobs) prompt_scores_[prompt] = scores;
  if (ids.empty()) return;
  // prompt_logprobs may request more than logprobs.
  for (GeneratedToken& score : scores) score.top.resize(std::min(score.top.size(), head_.logprobs.value_or(0)));
  scores.insert(scores.begin(), {.id = ids.front(), .logprob = std::numeric_limits<double>::quiet_NaN(), .top = {}});
  for (std::size_t i = 0; i < head_.choices; ++i) {
    Choice& echoing = choice(prompt, i);
    echoing.decoder.emplace(tokenizer_, text::StreamDecoder::Begin::kOfText, head_.show_special_tokens);
    for (const GeneratedToken& token : scores) add_token(echoing, token);
  }
}

void TextAnswer::add_token(Choice& choice, GeneratedToken token) {
  if (!choice.decoder) {
    choice.decoder.emplace(tokenizer_, text::StreamDecoder::Begin::kWithinText, head_.show_special_tokens);
  }
  choice.text_offsets.push_back(choice.decoded);
  choice.decoded += files::count_code_points(choice.decoder->push(token.id));
  choice.tokens.push_back(std::move(token));
}

void TextAnswer::took(std::size_t prompt, std::size_t index, const std::vector<ReplyPart>& parts,
                      std::optional<GeneratedToken> token) {
  Choice& taking = choice(prompt, index);
  for (const ReplyPart& part : parts) {
    if (part.kind == ReplyKind::kAnswer) taking.text += part.text;
    if (part.kind == ReplyKind::kThinking && head_.shows_thinking) taking.thinking += part.text;
  }
  if (token && head_.logprobs) add_token(taking, *std::move(token));
  const bool has_more = !taking.text.empty() || !taking.thinking.empty();
  if (head_.delivery.stream && has_more) send_piece(prompt * head_.choices + index);
}

void TextAnswer::choice_ended(std::size_t prompt, std::size_t index, GenerateResult::Finish finish) {
  choice(prompt, index).finish = finish;
  if (head_.delivery.stream) send_piece(prompt * head_.choices + index);
}

void TextAnswer::ended(const RequestUsage& usage) {
  usage_.prompt_tokens += usage.prompt_tokens;
  usage_.cached_tokens += usage.cached_tokens;
  usage_.generated_tokens += usage.generated_tokens;
  if (--open_ > 0 || over_) return;
  over_ = true;
  if (!head_.delivery.stream) return send_body();
  if (head_.delivery.include_usage) send_event(nlohmann::ordered_json::array(), true);
  exchange_->write("data: [DONE]\n\n");
  exchange_->end();
}

void TextAnswer::failed(Failure failure, const std::string& message) {
  if (over_) return;
  over_ = true;
  cancel_all(tickets_);
  const ApiError error(failure == Failure::kError ? 500 : 503, message);
  if (!head_.delivery.stream) return exchange_->respond(error.response());
  exchange_->write("data: " + error.body() + "\n\n");
  exchange_->end();
}

/// Sends the text of a choice since the last piece.
void TextAnswer::send_piece(std::size_t index) {
  if (over_) return;
  Choice& sending = choices_[index];
  const TextPart part = {.choice = index,
                         .text = sending.text,
                         .thinking = sending.thinking,
                         .tokens = sending.tokens,
                         .text_offsets = sending.text_offsets,
                         .finish = sending.finish};
  send_event(nlohmann::ordered_json::array({format_->piece(part)}), false);
  sending.text.clear();
  sending.thinking.clear();
  sending.tokens.clear();
  sending.text_offsets.clear();
}

void TextAnswer::send_event(nlohmann::ordered_json choices, bool with_usage) {
  nlohmann::ordered_json event = body_head(format_->piece_object());
  event["choices"] = std::move(choices);
  // Null in all pieces but the last announces the usage.
  if (with_usage) {
    event["usage"] = usage_json(usage_);
  } else if (head_.delivery.include_usage) {
    event["usage"] = nullptr;
  }
  exchange_->write("data: " + json_text(event) + "\n\n");
}

/// Writes choice by choice, so that only one is in memory as JSON.
void TextAnswer::send_body() {
  std::string text = json_text(body_head(format_->object()));
  text.pop_back();  // the closing brace
  text += ",\"choices\":[";
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Choice& done = choices_[i];
    if (i > 0) text += ',';
    nlohmann::ordered_json choice = format_->choice({.choice = i,
                                                     .text = done.text,
                                                     .thinking = done.thinking,
                                                     .tokens = done.tokens,
                                                     .text_offsets = done.text_offsets,
                                                     .finish = done.finish});
    if (format_->tells_prompt_of_choices()) add_prompt_logprobs(choice, i / head_.choices);
    text += json_text(choice);
    done.text = {};
    done.thinking = {};
    done.tokens = {};
    done.text_offsets = {};
  }
  nlohmann::ordered_json rest = {{"usage", usage_json(usage_)}};
  if (!format_->tells_prompt_of_choices()) add_prompt_logprobs(rest, 0);
  text += "]," + json_text(rest).substr(1);
  exchange_->respond({.body = std::move(text)});
}

/// Adds them to a choice, or to the whole body if it has one prompt.
void TextAnswer::add_prompt_logprobs(nlohmann::ordered_json& json, std::size_t prompt) const {
  if (!head_.prompt_logprobs) return;
  json["prompt_logprobs"] = prompt_logprobs_json(tokenizer_, prompt_scores_[prompt], *head_.prompt_logprobs);
}

nlohmann::ordered_json TextAnswer::body_head(std::string_view object) const {
  return {{"id", head_.id}, {"object", object}, {"created", head_.created}, {"model", head_.model}};
}

}  // namespace ballast::serve
