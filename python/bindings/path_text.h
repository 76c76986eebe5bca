// Converts text of the library that may contain file names.
#ifndef BALLAST_PYTHON_BINDINGS_PATH_TEXT_H_
#define BALLAST_PYTHON_BINDINGS_PATH_TEXT_H_

#include <nanobind/nanobind.h>

#include <string_view>

namespace ballast::python {

/// Decodes like os.fsdecode(): bytes of a path that are not UTF-8 become the same surrogates as in the str of the path.
inline nanobind::str path_text(std::string_view text) {
  return nanobind::steal<nanobind::str>(
      PyUnicode_DecodeFSDefaultAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

}  // namespace ballast::python

#endif  // BALLAST_PYTHON_BINDINGS_PATH_TEXT_H_
