#include "python/src/errors.h"

#include <exception>
#include <filesystem>
#include <typeinfo>

#include "core/error.h"

namespace nibble::python {
namespace {

namespace nb = nanobind;

// Live as long as the interpreter: translators may run until its end.
PyObject *error_class, *argument_class, *format_class, *numerical_class;

PyObject* add_class(nb::module_& module, const char* name, const char* doc, PyObject* base,
                    PyObject* second = nullptr) {
  const nb::object bases = second == nullptr ? nb::borrow(base) : nb::make_tuple(nb::borrow(base), nb::borrow(second));
  const std::string qualified = std::string("nibble.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, bases.ptr(), nullptr);
  if (made == nullptr) throw nb::python_error();
  module.attr(name) = nb::borrow(made);
  return made;
}

}  // namespace

void bind_errors(nb::module_& module) {
  error_class =
      add_class(module, "Error", "What the library raises on purpose: what, expected, got, hint.", PyExc_Exception);
  argument_class =
      add_class(module, "InvalidArgument", "A wrong option, shape, dtype or value.", error_class, PyExc_ValueError);
  format_class = add_class(module, "FormatError", "A file is missing, malformed or hostile, or cannot be written.",
                           error_class, PyExc_OSError);
  numerical_class =
      add_class(module, "NumericalError", "A method could not finish: a NaN, a Hessian that is not positive definite.",
                error_class, PyExc_ArithmeticError);
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const InvalidArgument& e) {
      PyErr_SetString(argument_class, e.what());
    } catch (const FormatError& e) {
      PyErr_SetString(format_class, e.what());
    } catch (const NumericalError& e) {
      PyErr_SetString(numerical_class, e.what());
    } catch (const Error& e) {
      PyErr_SetString(error_class, e.what());
    } catch (const std::filesystem::filesystem_error& e) {
      PyErr_SetString(format_class, e.what());
    } catch (const std::bad_cast&) {
      PyErr_SetString(PyExc_TypeError, "a value is of a type that cannot be used here");
    }
  });
}

}  // namespace nibble::python
