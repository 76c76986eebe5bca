#include <exception>
#include <optional>

#include "ballast/error.h"
#include "python/bindings/bindings.h"
#include "python/bindings/path_text.h"

namespace ballast::python {
namespace {

void raise(const char* kind, const Error& error) {
  try {
    const nb::object type = nb::module_::import_("ballast.errors").attr(kind);
    PyErr_SetObject(type.ptr(), type(path_text(error.what()), path_text(error.context())).ptr());
  } catch (nb::python_error& failure) {
    failure.restore();
  }
}

void translate(const std::exception_ptr& failure, void* /*unused*/) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (const std::optional<FileError> cause = take_lost_file()) return raise("FileError", *cause);
    const bool file = dynamic_cast<const FileError*>(&error) != nullptr;
    const bool unsupported = dynamic_cast<const UnsupportedError*>(&error) != nullptr;
    raise(file ? "FileError" : unsupported ? "UnsupportedError" : "Error", error);
  }
}

}  // namespace

void bind_errors() {
  nb::register_exception_translator(translate);
}

}  // namespace ballast::python
