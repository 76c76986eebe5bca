// Text of the library that may name files.
#ifndef BALLAST_PYTHON_BINDINGS_PATH_TEXT_H_
#define BALLAST_PYTHON_BINDINGS_PATH_TEXT_H_

#include <nanobind/nanobind.h>

#include <string_view>

namespace ballast::python {

/// As os.fsdecode() gives it: what a path has that is no UTF-8 is there as in the str that the path came as.
inline nanobind::str path_text(std::string_view text) {
  return nanobind::steal<nanobind::str>(
      PyUnicode_DecodeFSDefaultAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

}  // namespace ballast::python

#endif  // BALLAST_PYTHON_BINDINGS_PATH_TEXT_H_
