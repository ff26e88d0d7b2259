#pragma once

#include <nanobind/nanobind.h>

// One function for each file of bindings: each adds its classes and functions to the module.
namespace nibble::python {

void bind_palettes(nanobind::module_& module);
void bind_blocks(nanobind::module_& module);
void bind_solvers(nanobind::module_& module);
void bind_packing(nanobind::module_& module);
void bind_tensor(nanobind::module_& module);
void bind_recipe(nanobind::module_& module);
void bind_checkpoint(nanobind::module_& module);
void bind_tokenizer(nanobind::module_& module);
void bind_calibration(nanobind::module_& module);
void bind_quantize(nanobind::module_& module);
void bind_model(nanobind::module_& module);
void bind_quality(nanobind::module_& module);
void bind_sweep(nanobind::module_& module);

}  // namespace nibble::python
