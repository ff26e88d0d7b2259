#include "eval/sweep/environment.h"

#include <fmt/format.h>

#include <fstream>
#include <string>

#include "core/machine/isa.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/gemm.h"

namespace nibble::eval {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

Facts run_environment(Facts build) {
  build.emplace_back("processor", processor_name());
  build.emplace_back("instruction_set", isa_name(active_isa()));
  build.emplace_back("kernels", gemm_identity());
  build.emplace_back("threads", fmt::format("{}", thread_count()));
  return build;
}

}  // namespace nibble::eval
