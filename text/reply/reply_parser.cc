#include "text/reply/reply_parser.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace ballast::text {
namespace {

using enum ReplyState;

constexpr int kIsText = -1;
constexpr std::string_view kWhiteSpace = " \t\r\n";

// A longer text is not a header, but a reply without marks.
constexpr std::size_t kLongestHeader = 256;

std::size_t count_leading_space(std::string_view text) {
  return std::min(text.find_first_not_of(kWhiteSpace), text.size());
}

/// Returns how many bytes at the end of `text` may be the beginning of `mark`.
std::size_t count_begun(std::string_view text, std::string_view mark) {
  for (std::size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size) {
    if (text.ends_with(mark.substr(0, size))) return size;
  }
  return 0;
}

void add_piece(std::string_view text, std::optional<ReplyKind> kind, std::vector<ReplyPiece>& pieces,
               std::size_t call = 0) {
  if (text.empty()) return;
  const bool goes_on = kind && !pieces.empty() && pieces.back().kind == kind &&  // hidden ones stay separate
                       pieces.back().call == call;
  if (!goes_on) pieces.push_back({.text = {}, .kind = kind, .call = call});
  pieces.back().text += text;
}

bool shows_text(const std::vector<ReplyPiece>& pieces) {
  return std::ranges::any_of(pieces, [](const ReplyPiece& piece) {
    return piece.kind && count_leading_space(piece.text) < piece.text.size();
  });
}

}  // namespace

ReplyParser::ReplyParser() : format_(&reply_formats().front()) {}

ReplyParser::ReplyParser(const ReplyFormat& format, const Tokenizer& tokenizer, std::vector<OfferedTool> tools)
    : format_(&format), tools_(std::make_shared<const std::vector<OfferedTool>>(std::move(tools))) {
  const auto special_token = [&](std::string_view text) {
    const std::optional<int> id = find_token(tokenizer, text);
    return id && tokenizer.is_special(*id) ? *id : kIsText;
  };
  const auto special_tokens = [&](const std::vector<std::string_view>& texts) {
    std::vector<int> ids;
    for (const std::string_view text : texts) ids.push_back(special_token(text));
    std::erase(ids, kIsText);
    return ids;
  };
  for (const ReplyMark& mark : format.marks) mark_ids_.push_back(special_token(mark.text));
  ends_ = special_tokens(format.ends);
  inner_ = special_tokens(format.inner);
  if (!calls_tools()) return;
  for (const CallSyntax& syntax : format.calls) {
    call_syntaxes_.push_back(std::make_shared<const TokenizedCallSyntax>(syntax, tokenizer));
  }
}

void ReplyParser::begin_after(const ChatPrompt& prompt) {
  std::span<const ByteRange> from_user = prompt.from_user;
  const std::string_view text = prompt.text;
  std::size_t end = text.size();
  if (prompt.continues_message && !from_user.empty() && from_user.back().end == text.size()) {
    end = from_user.back().begin;
    from_user = from_user.first(from_user.size() - 1);
  }
  const std::size_t begin = from_user.empty() ? 0 : from_user.back().end;
  begin_after_template(text.substr(begin, end - begin));
  if (end == text.size()) return;
  std::vector<ReplyPiece> pieces;
  push(text.substr(end), pieces);
  waiting_.clear();
  has_mark_ = false;
  // A call that the message has begun cannot be reported as a whole: its rest is text.
  if (state_ == kCall) state_ = kAnswer;
  calls_.reset();
  call_ = 0;
}

/// `written` is the text that the template wrote after the last message.
void ReplyParser::begin_after_template(std::string_view written) {
  if (format_->marks.empty() || format_->marks.front().next == kCall) return;
  const std::size_t opened = written.rfind(format_->marks.front().text);
  if (opened == std::string_view::npos) return;
  ReplyParser reader = *this;
  reader.tools_.reset();
  std::ranges::fill(reader.mark_ids_, kIsText);
  std::vector<ReplyPiece> pieces;
  reader.push(written.substr(opened), pieces);
  add_piece(reader.waiting_, reader.state_ == kHeader ? std::nullopt : std::optional(ReplyKind::kAnswer), pieces);
  // If the template continues after the mark, it only mentions it in its instructions.
  if (shows_text(pieces)) return;
  state_ = reader.state_;
  drops_space_ = format_->trims && state_ == kThinking;
}

bool ReplyParser::is_mark(int id) const {
  return state_ == kCall || std::ranges::find(mark_ids_, id) != mark_ids_.end();
}

void ReplyParser::push(std::string_view text, std::vector<ReplyPiece>& pieces) {
  if (format_->marks.empty()) return add_piece(text, ReplyKind::kAnswer, pieces);
  waiting_ += text;
  drain(pieces);
}

void ReplyParser::drain(std::vector<ReplyPiece>& pieces) {
  while (true) {
    if (state_ == kCall) {
      if (waiting_.empty()) return;
      const Symbol byte = {.text = waiting_.substr(0, 1)};
      waiting_.erase(0, 1);
      take_symbol(byte, pieces);
      continue;
    }
    if (state_ == kBegin && begins_text()) state_ = kAnswer;
    const auto [begin, mark] = find_mark();
    const std::size_t end = mark != nullptr ? begin : waiting_.size() - count_possible_mark();
    const bool keeps_space = mark != nullptr && state_ == kAnswer && mark->next != kCall;
    const std::size_t size = keeps_space ? end : size_without_edge(end);
    if (!take(size, pieces)) continue;
    if (mark == nullptr) return;
    const std::string space = waiting_.substr(0, end - size);
    waiting_.erase(0, end - size + mark->text.size());
    pass(*mark, space, true, pieces);
  }
}

void ReplyParser::push_special(int id, std::string_view text, std::vector<ReplyPiece>& pieces) {
  if (state_ == kCall) return take_symbol({.token = id, .text = std::string(text)}, pieces);
  // A possible mark that was not completed is text; white space waits for the next text.
  if (state_ == kBegin && count_leading_space(waiting_) < waiting_.size()) state_ = kAnswer;
  take_waiting(pieces);
  const auto place = std::ranges::find(mark_ids_, id);
  const ReplyMark* mark =
      place == mark_ids_.end() ? nullptr : &format_->marks[static_cast<std::size_t>(place - mark_ids_.begin())];
  if (mark == nullptr || !mark->in.contains(state_) || !is_active(*mark)) {
    return add_piece(text, std::nullopt, pieces);
  }
  const std::string space = std::exchange(waiting_, {});
  if (state_ == kAnswer && mark->next != kCall) add(space, pieces);
  pass(*mark, space, false, pieces);
}

void ReplyParser::finish(std::vector<ReplyPiece>& pieces) {
  if (state_ == kCall) finish_calls(pieces);
  if (state_ == kBegin) state_ = kAnswer;
  take_waiting(pieces);
  if (state_ == kAnswer && !after_call_) add(waiting_, pieces);
  waiting_.clear();
  // Without a mark the model has not used the format: what looks like a header is its answer.
  if (state_ == kHeader && !has_mark_) add_piece(std::exchange(header_, {}), ReplyKind::kAnswer, pieces);
}

/// Returns whether the waiting text is more than white space and the beginning of a mark.
bool ReplyParser::begins_text() const {
  const std::string_view text = std::string_view(waiting_).substr(count_leading_space(waiting_));
  if (text.empty()) return false;
  for (std::size_t i = 0; i < mark_ids_.size(); ++i) {
    const ReplyMark& mark = format_->marks[i];
    if (mark_ids_[i] != kIsText || !mark.in.contains(kBegin) || !is_active(mark)) continue;
    if (mark.text.starts_with(text) || text.starts_with(mark.text)) return false;
  }
  return true;
}

/// Returns the first mark that is text.
ReplyParser::FoundMark ReplyParser::find_mark() const {
  FoundMark first{.begin = std::string::npos};
  for (std::size_t i = 0; i < mark_ids_.size(); ++i) {
    const ReplyMark& mark = format_->marks[i];
    if (mark_ids_[i] != kIsText || !mark.in.contains(state_) || !is_active(mark)) continue;
    const std::size_t begin = waiting_.find(mark.text);
    if (begin < first.begin) first = {.begin = begin, .mark = &mark};
  }
  return first;
}

/// Returns how many bytes at the end of the waiting text may be the beginning of a mark.
std::size_t ReplyParser::count_possible_mark() const {
  std::size_t most = 0;
  for (std::size_t i = 0; i < mark_ids_.size(); ++i) {
    const ReplyMark& mark = format_->marks[i];
    if (mark_ids_[i] != kIsText || !mark.in.contains(state_) || !is_active(mark)) continue;
    most = std::max(most, count_begun(waiting_, mark.text));
  }
  return most;
}

/// Returns `size` without trailing white space that may be next to a mark.
std::size_t ReplyParser::size_without_edge(std::size_t size) const {
  if (state_ == kBegin) return 0;
  const bool keeps_edge = state_ == kAnswer ? !calls_tools() : state_ != kThinking || !format_->trims;
  if (keeps_edge) return size;
  return std::string_view(waiting_).substr(0, size).find_last_not_of(kWhiteSpace) + 1;
}

/// Takes the first `size` waiting bytes. Returns false if they are too long for a header: the rest is then text of the
/// answer, with its marks.
bool ReplyParser::take(std::size_t size, std::vector<ReplyPiece>& pieces) {
  const std::size_t room = state_ == kHeader ? kLongestHeader - header_.size() : size;
  const std::string text = waiting_.substr(0, std::min(size, room));
  waiting_.erase(0, text.size());
  if (state_ != kHeader) {
    add(text, pieces);
    return true;
  }
  header_ += text;
  if (size <= room) return true;
  state_ = kAnswer;
  add(std::exchange(header_, {}), pieces);
  return false;
}

/// Takes the waiting text, except white space that may be next to a mark.
void ReplyParser::take_waiting(std::vector<ReplyPiece>& pieces) {
  while (!take(size_without_edge(waiting_.size()), pieces)) {
  }
}

/// Handles a mark after white space that is not in the pieces.
void ReplyParser::pass(const ReplyMark& mark, std::string_view space, bool is_text, std::vector<ReplyPiece>& pieces) {
  if (mark.next == kCall) {
    const auto syntax = std::ranges::find(format_->calls, mark.text, &CallSyntax::open);
    if (!syntax->open_is_call) add_piece(mark.text, std::nullopt, pieces);
    begin_calls(static_cast<std::size_t>(syntax - format_->calls.begin()),
                std::string(space) + (is_text && !syntax->open_is_call ? std::string(mark.text) : ""));
    if (syntax->open_is_call) waiting_.insert(0, mark.text);
    return;
  }
  if (count_leading_space(mark.text) < mark.text.size()) add_piece(mark.text, std::nullopt, pieces);
  if (state_ == kHeader) note_recipient();
  if (state_ != kHeader && mark.next == kHeader) recipient_.clear();
  const bool is_call = !mark.next && !recipient_.empty() && calls_tools();
  const ReplyState next = mark.next.value_or(state_of_channel());
  header_.clear();
  has_mark_ = true;
  if (is_call) return begin_calls(0, "", std::exchange(recipient_, {}));
  separates_ = next == kThinking && has_thought_;
  state_ = next;
  drops_space_ = format_->trims;
}

/// Begins to read calls. `written` is text that becomes answer if there are none.
void ReplyParser::begin_calls(std::size_t syntax, std::string_view written, std::string name) {
  state_ = kCall;
  has_mark_ = true;
  call_text_ = written;
  before_calls_ = written;
  syntax_ = syntax;
  is_certain_ = false;
  tried_.clear();
  calls_.emplace(call_syntaxes_[syntax], tools_, std::move(name));
}

void ReplyParser::take_symbol(const Symbol& symbol, std::vector<ReplyPiece>& pieces) {
  CallReader::Output output;
  const CallReader::Result result = calls_->take(symbol, output);
  const bool is_read = result == CallReader::Result::kMore || result == CallReader::Result::kEnded;
  if (is_read && symbol.is_byte()) call_text_ += symbol.text;
  if (result == CallReader::Result::kFailed) output = {};
  show_call(output, pieces);
  is_certain_ = is_certain_ || call_is_reported_ || output.completed;
  if (result == CallReader::Result::kFailed && try_next_syntax(symbol, pieces)) return;
  if (!is_certain_) tried_.push_back(symbol);
  if (result == CallReader::Result::kMore) return;
  if (result == CallReader::Result::kEnded) return end_calls();
  const std::string unread = calls_->unread();
  if (result == CallReader::Result::kEndedEarlier) {
    end_calls();
  } else {
    break_call(std::string_view(call_text_).substr(0, call_text_.size() - unread.size()), pieces);
  }
  waiting_.insert(0, symbol.is_byte() ? unread + symbol.text : unread);
  if (symbol.is_byte()) return;  // the caller goes on with the waiting text
  drain(pieces);
  push_special(symbol.token, symbol.text, pieces);
}

/// Reads the calls again in another syntax with the same mark, if the format has one and nothing has been reported.
bool ReplyParser::try_next_syntax(const Symbol& symbol, std::vector<ReplyPiece>& pieces) {
  if (is_certain_) return false;
  const std::string_view open = format_->calls[syntax_].open;
  std::size_t next = syntax_ + 1;
  while (next < format_->calls.size() && format_->calls[next].open != open) ++next;
  if (next >= format_->calls.size()) return false;
  std::vector<Symbol> symbols = std::exchange(tried_, {});
  symbols.push_back(symbol);
  const std::string later = std::exchange(waiting_, {});
  begin_calls(next, std::exchange(before_calls_, {}));
  for (const Symbol& each : symbols) {
    if (each.is_byte()) {
      push(each.text, pieces);
    } else {
      push_special(each.token, each.text, pieces);
    }
  }
  waiting_ += later;
  return true;
}

void ReplyParser::show_call(const CallReader::Output& output, std::vector<ReplyPiece>& pieces) {
  if (output.name) {
    add_piece(*output.name, ReplyKind::kToolName, pieces, call_);
    call_is_reported_ = true;
  }
  if (!output.arguments.empty()) {
    std::string arguments = std::exchange(last_brace_, {}) + output.arguments;
    if (arguments.ends_with('}')) {
      arguments.pop_back();
      last_brace_ = "}";
    }
    add_piece(arguments, ReplyKind::kToolArguments, pieces, call_);
  }
  if (output.completed) complete_call(pieces);
}

void ReplyParser::complete_call(std::vector<ReplyPiece>& pieces) {
  add_piece(std::exchange(last_brace_, {}), ReplyKind::kToolArguments, pieces, call_);
  ++call_;
  call_is_reported_ = false;
  call_text_.clear();
}

void ReplyParser::end_calls() {
  state_ = kAnswer;
  calls_.reset();
  call_text_.clear();
  drops_space_ = true;
  after_call_ = true;
}

/// Shows text instead of a call.
void ReplyParser::break_call(std::string_view written, std::vector<ReplyPiece>& pieces) {
  if (std::exchange(call_is_reported_, false)) {
    add_piece(written, ReplyKind::kBrokenCall, pieces, call_++);
  } else {
    add_piece(written, ReplyKind::kAnswer, pieces);
  }
  state_ = kAnswer;
  calls_.reset();
  last_brace_.clear();
  drops_space_ = false;
  has_answered_ = true;
  after_call_ = false;
  call_text_.clear();
}

void ReplyParser::finish_calls(std::vector<ReplyPiece>& pieces) {
  if (calls_->has_whole_call()) complete_call(pieces);
  if (calls_->may_end()) return end_calls();
  break_call(std::exchange(call_text_, {}), pieces);
}

void ReplyParser::add(std::string_view text, std::vector<ReplyPiece>& pieces) {
  bool& has_before = state_ == kThinking ? has_thought_ : has_answered_;
  if (drops_space_ && (state_ == kThinking || !has_answered_)) {
    text.remove_prefix(count_leading_space(text));
  }
  if (text.empty()) return;
  drops_space_ = false;
  after_call_ = false;
  const ReplyKind kind = state_ == kThinking ? ReplyKind::kThinking : ReplyKind::kAnswer;
  if (std::exchange(separates_, false)) add_piece("\n\n", kind, pieces);
  add_piece(text, kind, pieces);
  has_before = true;
}

/// Notes the tool to which the header says that the message goes.
void ReplyParser::note_recipient() {
  if (format_->recipient.empty()) return;
  const std::size_t begin = header_.find(format_->recipient);
  if (begin == std::string::npos) return;
  const std::string_view name = std::string_view(header_).substr(begin + format_->recipient.size());
  recipient_ = name.substr(0, name.find_first_of(" \t\r\n<"));
}

ReplyState ReplyParser::state_of_channel() const {
  const std::string_view name = std::string_view(header_).substr(count_leading_space(header_));
  for (const ReplyChannel& channel : format_->channels) {
    if (name.starts_with(channel.name)) return channel.kind == ReplyKind::kThinking ? kThinking : kAnswer;
  }
  return kAnswer;
}

ReplyParser make_reply_parser(const Tokenizer& tokenizer, const ChatPrompt& prompt, std::string_view format,
                              std::vector<OfferedTool> tools) {
  ReplyParser parser(find_reply_format(tokenizer, format), tokenizer, std::move(tools));
  parser.begin_after(prompt);
  return parser;
}

}  // namespace ballast::text
