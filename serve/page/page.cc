#include "serve/page/page.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>

namespace ballast::serve {
namespace {

/// Returns the text between the first <tag> and its end.
std::string_view content_of(std::string_view tag) {
  const std::string_view page = page_text();
  const std::string open = "<" + std::string(tag) + ">";
  const std::string close = "</" + std::string(tag) + ">";
  const std::size_t begin = page.find(open) + open.size();
  return page.substr(begin, page.find(close, begin) - begin);
}

/// Returns 'sha256-...' in Base64.
std::string source_hash(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
  ::SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  std::array<unsigned char, 4 * ((SHA256_DIGEST_LENGTH + 2) / 3) + 1> base64{};
  ::EVP_EncodeBlock(base64.data(), hash.data(), SHA256_DIGEST_LENGTH);
  return "'sha256-" + std::string(reinterpret_cast<const char*>(base64.data())) + "'";
}

}  // namespace

const std::string& page_policy() {
  static const std::string policy = "default-src 'none'; script-src " + source_hash(content_of("script")) +
                                    "; style-src " + source_hash(content_of("style")) +
                                    "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                                    "frame-ancestors 'none'";
  return policy;
}

}  // namespace ballast::serve
