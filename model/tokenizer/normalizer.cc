#include "model/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "ballast/error.h"
#include "model/checkpoint/text.h"
#include "model/tokenizer/utf8.h"

namespace ballast::model {
namespace {

constexpr int kMaxDepth = 16;

bool contains_nfc(const CheckedJson& node, int depth) {
  if (depth > kMaxDepth) node.fail("nested too deep");
  const std::string& type = node.type();
  if (type == "NFC") return true;
  if (type != "Sequence") node.fail("normalizer " + in_quotes(type) + " is not supported");
  bool nfc = false;
  for (const CheckedJson& child : node.at("normalizers").elements()) nfc = contains_nfc(child, depth + 1) || nfc;
  return nfc;
}

}  // namespace

Normalizer::Normalizer(const std::optional<CheckedJson>& node) : nfc_(node && contains_nfc(*node, 0)) {}

std::string_view Normalizer::normalize(std::string_view text, std::string& storage) const {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (!nfc_ || std::all_of(text.begin(), text.end(), is_ascii)) return text;
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &composed, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (size < 0) throw Error("NFC", utf8proc_errmsg(size));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(composed, std::free);
  storage.assign(reinterpret_cast<const char*>(composed), static_cast<std::size_t>(size));
  return storage;
}

}  // namespace ballast::model
