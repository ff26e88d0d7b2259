#pragma once

#include <filesystem>
#include <optional>

namespace nibble {

/// How many processors' worth of time the control groups of this process (a container, a batch job) grant it: the least
/// quota / period of its group and the groups around it, of either version of cgroups. Empty: no limit, or none that
/// can be read. `root` stands for "/" in tests.
///
/// Source: the Linux kernel's Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst
/// (cpu.cfs_quota_us, -1 without a limit).
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace nibble
