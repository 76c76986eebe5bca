// A program that uses ballast only as an installed library.
#include <ballast/convert.h>
#include <ballast/error.h>
#include <ballast/inspect.h>

#include <cstdio>
#include <string_view>

int main() {
  for (const auto& scheme : ballast::scheme_names()) std::puts(scheme.c_str());
  try {
    ballast::inspect("no-such-model");
  } catch (const ballast::Error& error) {
    std::puts(error.what());
    return std::string_view(error.what()).contains("no-such-model") ? 0 : 1;
  }
  return 1;
}
