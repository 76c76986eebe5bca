#include <exception>

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
  } catch (const FileError& error) {
    raise("FileError", error);
  } catch (const UnsupportedError& error) {
    raise("UnsupportedError", error);
  } catch (const Error& error) {
    raise("Error", error);
  }
}

}  // namespace

void bind_errors() {
  nb::register_exception_translator(translate);
}

}  // namespace ballast::python
