#include "core/machine/memory.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace nibble {

MemoryUse memory_use() {
  MemoryUse use;
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    std::uint64_t kib = 0;
    if (key == "RssAnon:" && status >> kib) use.anonymous_bytes = kib * 1024;
    if (key == "VmHWM:" && status >> kib) use.peak_resident_bytes = kib * 1024;
    std::getline(status, key);
  }
  return use;
}

struct PeakAnonymousMemory::Sampler {
  std::atomic<std::uint64_t> peak{0};
  std::atomic<bool> stop{false};
  std::thread thread;

  void sample() { peak.store(std::max(peak.load(), memory_use().anonymous_bytes)); }
};

PeakAnonymousMemory::PeakAnonymousMemory() : sampler_(std::make_unique<Sampler>()) {
  sampler_->sample();
  sampler_->thread = std::thread([sampler = sampler_.get()] {
    while (!sampler->stop.load()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      sampler->sample();
    }
  });
}

PeakAnonymousMemory::~PeakAnonymousMemory() {
  sampler_->stop.store(true);
  sampler_->thread.join();
}

std::uint64_t PeakAnonymousMemory::bytes() const { return sampler_->peak.load(); }

}  // namespace nibble
