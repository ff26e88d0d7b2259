#include "core/machine/cpu_quota.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace nibble {
namespace {

// A tree like /proc and /sys of a container.
class CpuQuotaTest : public testing::Test {
 protected:
  void write(const std::string& name, std::string_view text) {
    std::filesystem::create_directories((root.path() / name).parent_path());
    test::write_file(root.path() / name, text);
  }
  std::optional<double> quota() const { return cpu_quota(root.path()); }
  test::TempDir root;
};

TEST_F(CpuQuotaTest, WithoutControlGroupsThereIsNone) { EXPECT_EQ(quota(), std::nullopt); }

TEST_F(CpuQuotaTest, Version2) {
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(CpuQuotaTest, TheLeastOfTheGroupsAroundHolds) {
  write("proc/self/cgroup", "0::/slice/job\n");
  write("sys/fs/cgroup/slice/job/cpu.max", "400000 100000\n");
  write("sys/fs/cgroup/slice/cpu.max", "100000 50000\n");
  EXPECT_EQ(quota(), 2.0);
}

// A container sees its own group as the root of the mount, whatever /proc calls it.
TEST_F(CpuQuotaTest, TheRootOfTheMountCounts) {
  write("proc/self/cgroup", "0::/docker/0123\n");
  write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(quota(), 3.0);
}

TEST_F(CpuQuotaTest, AGroupInsideAContainerWhoseMountBeginsWithItsOwnCounts) {
  write("proc/self/cgroup", "4:cpu,cpuacct:/docker/0123/inner\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 1.0);
}

TEST_F(CpuQuotaTest, Version1) {
  write("proc/self/cgroup", "5:memory:/m\n4:cpuset:/s\n3:cpu,cpuacct:/job\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 2.0);
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(CpuQuotaTest, WhatMakesNoSenseIsNoLimit) {
  write("proc/self/cgroup", "nonsense\n0::/../elsewhere\n0::/job\n");
  write("sys/fs/elsewhere/cpu.max", "100000 100000\n");
  for (const char* text :
       {"", "100000", "100000 ", "1e5 100000", "0 100000", "100000 0", "-5 100000", "9999999999999999999999 1"}) {
    write("sys/fs/cgroup/job/cpu.max", text);
    EXPECT_EQ(quota(), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace nibble
