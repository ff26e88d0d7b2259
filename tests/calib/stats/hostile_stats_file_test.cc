// Calibration files built with raw HDF5 calls, each wrong in one way.

#include <gtest/gtest.h>
#include <hdf5.h>

#include <functional>
#include <limits>

#include "calib/stats/stats_file.h"
#include "calib/stats/stats_writer.h"
#include "core/error.h"
#include "tests/calib/stats/example_stats.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::calib {
namespace {

constexpr StatisticSet kCollected = {.activations = true, .fisher = true, .hessian = true, .output_hessian = true};
constexpr const char* kLayer = "h.0.attn.c_attn";
constexpr hsize_t kOut = 6, kIn = 3;

// Every test starts from a good file, changes it through raw HDF5, and looks at what opening or reading says.
class HostileStatsFile : public testing::Test {
 protected:
  void SetUp() override {
    StatsWriter writer(path_, example_settings(kCollected));
    writer.add(example_layer(kLayer, kOut, kIn, 1, kCollected));
    writer.commit();
  }

  void change(const std::function<void(hid_t layer)>& action) {
    const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    const hid_t layer = H5Gopen2(file, (std::string("/layers/") + kLayer).c_str(), H5P_DEFAULT);
    ASSERT_GE(layer, 0);
    action(layer);
    H5Gclose(layer);
    ASSERT_GE(H5Fclose(file), 0);
  }

  // Puts another data set in the place of `name`.
  template <class T>
  void replace(const char* name, hid_t type, std::vector<hsize_t> shape, const std::vector<T>& values,
               hid_t creation = H5P_DEFAULT) {
    change([&](hid_t layer) {
      H5Ldelete(layer, name, H5P_DEFAULT);
      const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
      const hid_t dataset = H5Dcreate2(layer, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
      ASSERT_GE(dataset, 0);
      const hid_t native = sizeof(T) == 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
      if (!values.empty()) {
        ASSERT_GE(H5Dwrite(dataset, native, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
      }
      H5Dclose(dataset);
      H5Sclose(space);
    });
  }
  void replace_fisher(std::vector<hsize_t> shape, const std::vector<float>& values, hid_t creation = H5P_DEFAULT) {
    replace("fisher", H5T_IEEE_F32LE, std::move(shape), values, creation);
  }

  void set_attribute(const char* object, const char* name, hid_t type, const void* value) {
    change([&](hid_t layer) {
      const hid_t target = H5Oopen(layer, object, H5P_DEFAULT);
      H5Adelete(target, name);
      const hid_t space = H5Screate(H5S_SCALAR);
      const hid_t attribute = H5Acreate2(target, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
      ASSERT_GE(H5Awrite(attribute, type, value), 0);
      H5Aclose(attribute);
      H5Sclose(space);
      H5Oclose(target);
    });
  }
  void set_text(const char* name, std::string text) {
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, text.size());
    set_attribute("/", name, type, text.data());
    H5Tclose(type);
  }
  void set_number(const char* object, const char* name, std::uint64_t value) {
    set_attribute(object, name, H5T_NATIVE_UINT64, &value);
  }

  template <class... Words>
  testing::AssertionResult refused(Words... words) const {
    return test::throws_with<FormatError>([&] { StatsFile::open(path_)->read(kLayer); }, "calib.h5", words...);
  }

  const test::TempDir dir_;
  const std::filesystem::path path_ = dir_ / "calib.h5";
};

TEST_F(HostileStatsFile, TheUnchangedFileIsFine) { EXPECT_NO_THROW(StatsFile::open(path_)->read(kLayer)); }

TEST_F(HostileStatsFile, NoFileIsNamed) {
  std::filesystem::remove(path_);
  EXPECT_TRUE(refused("cannot open"));
}

TEST_F(HostileStatsFile, SomethingElseIsRefused) {
  test::write_file(path_, "this is not HDF5");
  EXPECT_TRUE(refused("cannot open"));
}

TEST_F(HostileStatsFile, ATruncatedFileIsRefused) {
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  EXPECT_TRUE(refused("cannot open"));
}

TEST_F(HostileStatsFile, AnotherFormatIsRefused) {
  set_text("format", "other.format");
  EXPECT_TRUE(refused("'nibble.calib'", "'other.format'"));
}

TEST_F(HostileStatsFile, ANewerVersionIsRefused) {
  set_number("/", "version", 99);
  EXPECT_TRUE(refused("version 99"));
}

TEST_F(HostileStatsFile, AMissingAttributeIsNamed) {
  change([](hid_t layer) { H5Adelete_by_name(layer, "/", "model_hash", H5P_DEFAULT); });
  EXPECT_TRUE(refused("'model_hash' is missing"));
}

TEST_F(HostileStatsFile, AnAttributeOfAnotherTypeIsRefused) {
  set_number("/", "model_hash", 3);
  EXPECT_TRUE(refused("'model_hash'", "text of fixed length"));
}

TEST_F(HostileStatsFile, ATextAttributeOnTheHeapIsRefused) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  const char* text = "model";
  set_attribute("/", "model_hash", type, &text);
  H5Tclose(type);
  EXPECT_TRUE(refused("'model_hash'", "text of fixed length"));
}

TEST_F(HostileStatsFile, AnUnknownFlavourIsRefused) {
  set_text("flavour", "sequences");
  EXPECT_TRUE(refused("flavour", "did you mean 'sequence'"));
}

herr_t copy_attribute(hid_t from, const char* name, const H5A_info_t*, void* to) {
  const hid_t source = H5Aopen(from, name, H5P_DEFAULT), type = H5Aget_type(source), space = H5Aget_space(source);
  const hid_t copy = H5Acreate2(*static_cast<hid_t*>(to), name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  std::vector<char> bytes(H5Aget_storage_size(source));
  H5Aread(source, type, bytes.data());
  H5Awrite(copy, type, bytes.data());
  for (const hid_t attribute : {source, copy}) H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
  return 0;
}

// HDF5 itself makes no such names: in a file of the old kind, whose names have no checksum, the bytes are patched.
TEST_F(HostileStatsFile, ALayerNamedLikeAPathIsRefused) {
  hid_t old_file = H5Fcreate((dir_ / "old.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(H5Gcreate2(old_file, "/layers", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  change([&](hid_t layer) {
    const hid_t root = H5Gopen2(layer, "/", H5P_DEFAULT);
    ASSERT_GE(H5Aiterate2(root, H5_INDEX_NAME, H5_ITER_INC, nullptr, copy_attribute, &old_file), 0);
    H5Gclose(root);
    ASSERT_GE(H5Ocopy(layer, ".", old_file, "/layers/up-and-away", H5P_DEFAULT, H5P_DEFAULT), 0);
  });
  H5Fclose(old_file);
  std::string bytes = test::read_file(dir_ / "old.h5");
  const std::size_t at = bytes.find("up-and-away");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 11, "../../other");
  test::write_file(path_, bytes);
  EXPECT_TRUE(refused("'../../other' cannot be the name of a layer"));
}

TEST_F(HostileStatsFile, ControlCharactersInLayerNamesAreRefused) {
  change([](hid_t layer) { H5Gclose(H5Gcreate2(layer, "/layers/a\nb", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)); });
  EXPECT_TRUE(refused("cannot be the name of a layer"));
}

TEST_F(HostileStatsFile, ASoftLinkIsNotFollowed) {
  change([](hid_t layer) {
    H5Lmove(layer, "fisher", layer, "other", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("other", layer, "fisher", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_TRUE(refused("'fisher' is a soft link"));
}

TEST_F(HostileStatsFile, AnExternalLinkIsNotFollowed) {
  change([&](hid_t layer) {
    H5Ldelete(layer, "fisher", H5P_DEFAULT);
    H5Lcreate_external("/etc/passwd", "/x", layer, "fisher", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_TRUE(refused("'fisher' is an external link"));
}

TEST_F(HostileStatsFile, AnExternalLinkInPlaceOfALayerIsNotFollowed) {
  change([](hid_t layer) { H5Lcreate_external("other.h5", "/x", layer, "/layers/other", H5P_DEFAULT, H5P_DEFAULT); });
  EXPECT_TRUE(refused("'other' is an external link"));
}

TEST_F(HostileStatsFile, ASoftLinkInPlaceOfAllLayersIsNotFollowed) {
  change([](hid_t layer) {
    H5Lmove(layer, "/layers", layer, "/other", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/other", layer, "/layers", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_TRUE(refused("'layers' is a soft link"));
}

TEST_F(HostileStatsFile, ExternalStorageIsNotFollowed) {
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(creation, "/etc/passwd", 0, kOut * kIn * 4);
  replace_fisher({kOut, kIn}, {}, creation);
  H5Pclose(creation);
  EXPECT_TRUE(refused("'fisher'", "external file"));
}

TEST_F(HostileStatsFile, AVirtualDataSetIsRefused) {
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t shape[2] = {kOut, kIn};
  const hid_t space = H5Screate_simple(2, shape, nullptr);
  ASSERT_GE(H5Pset_virtual(creation, space, "/etc/passwd", "/x", space), 0);
  replace_fisher({kOut, kIn}, {}, creation);
  H5Sclose(space);
  H5Pclose(creation);
  EXPECT_TRUE(refused("'fisher'", "virtual data set"));
}

TEST_F(HostileStatsFile, FiltersAreRefused) {
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk[2] = {kOut, kIn};
  H5Pset_chunk(creation, 2, chunk);
  H5Pset_shuffle(creation);
  replace_fisher({kOut, kIn}, std::vector<float>(kOut * kIn), creation);
  H5Pclose(creation);
  EXPECT_TRUE(refused("'fisher'", "not stored contiguously"));
}

TEST_F(HostileStatsFile, AnUnknownFilterIsRefused) {
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk[2] = {kOut, kIn};
  H5Pset_chunk(creation, 2, chunk);
  H5Pset_filter(creation, 31999, H5Z_FLAG_OPTIONAL, 0, nullptr);
  replace_fisher({kOut, kIn}, {}, creation);
  H5Pclose(creation);
  EXPECT_TRUE(refused("'fisher'", "not stored contiguously"));
}

TEST_F(HostileStatsFile, ATransposedMatrixIsRefused) {
  replace_fisher({kIn, kOut}, std::vector<float>(kOut * kIn));
  EXPECT_TRUE(refused("'fisher'", "(6, 3)", "got (3, 6)"));
}

TEST_F(HostileStatsFile, AVectorInPlaceOfAMatrixIsRefused) {
  replace_fisher({kOut * kIn}, std::vector<float>(kOut * kIn));
  EXPECT_TRUE(refused("'fisher'", "got (18)"));
}

TEST_F(HostileStatsFile, ThreeDimensionsAreRefused) {
  replace_fisher({1, kOut, kIn}, std::vector<float>(kOut * kIn));
  EXPECT_TRUE(refused("'fisher'", "at most 2 dimensions, got 3"));
}

TEST_F(HostileStatsFile, AnotherTypeIsRefused) {
  replace<double>("fisher", H5T_IEEE_F64LE, {kOut, kIn}, std::vector<double>(kOut * kIn));
  EXPECT_TRUE(refused("'fisher'", "floating point of 4 bytes", "got floating point of 8 bytes"));
}

TEST_F(HostileStatsFile, BigEndianNumbersAreRefused) {
  replace<float>("fisher", H5T_IEEE_F32BE, {kOut, kIn}, std::vector<float>(kOut * kIn));
  EXPECT_TRUE(refused("'fisher'", "little-endian"));
}

// 2^28 x 2^28 values of a data set that was never written: refused before 2^58 bytes are asked for.
TEST_F(HostileStatsFile, HugeExtentsAreRefusedBeforeAllocating) {
  set_number(".", "out", 1ull << 28);
  set_number(".", "in", 1ull << 28);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_alloc_time(creation, H5D_ALLOC_TIME_LATE);
  replace_fisher({1ull << 28, 1ull << 28}, {}, creation);
  H5Pclose(creation);
  EXPECT_TRUE(test::throws_with<FormatError>([&] { StatsFile::open(path_)->read(kLayer, {.fisher = true}); },
                                             "'fisher'", "stored bytes"));
}

TEST_F(HostileStatsFile, ExtentsBeyondAllReasonAreRefused) {
  set_number(".", "in", 1ull << 40);
  EXPECT_TRUE(refused("'in' is 1099511627776"));
  set_number(".", "in", 0);
  EXPECT_TRUE(refused("'in' is 0"));
}

TEST_F(HostileStatsFile, AMissingDataSetIsNamed) {
  change([](hid_t layer) { H5Ldelete(layer, "sum_x2", H5P_DEFAULT); });
  EXPECT_TRUE(refused("'sum_x2' is missing"));
}

TEST_F(HostileStatsFile, AGroupInPlaceOfADataSetIsRefused) {
  change([](hid_t layer) {
    H5Ldelete(layer, "fisher", H5P_DEFAULT);
    H5Gclose(H5Gcreate2(layer, "fisher", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  });
  EXPECT_TRUE(refused("'fisher' is not a data set"));
}

TEST_F(HostileStatsFile, NegativeSensitivitiesAreRefused) {
  std::vector<float> values(kOut * kIn, 1.0f);
  values[7] = -1.0f;
  replace_fisher({kOut, kIn}, values);
  EXPECT_TRUE(refused("'fisher'", "-1 at index 7", "not negative"));
}

TEST_F(HostileStatsFile, NanIsRefused) {
  std::vector<float> values(kOut * kIn, 1.0f);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  replace_fisher({kOut, kIn}, values);
  EXPECT_TRUE(refused("'fisher'", "nan at index 3"));
}

TEST_F(HostileStatsFile, AnOutputHessianOfInputsIsRefused) {
  replace("sum_dydyt", H5T_IEEE_F32LE, {kIn, kIn}, std::vector<float>(kIn * kIn));
  EXPECT_TRUE(refused("'sum_dydyt'", "(6, 6)", "got (3, 3)"));
}

TEST_F(HostileStatsFile, AnOutputHessianWithANegativeDiagonalIsRefused) {
  std::vector<float> values(kOut * kOut, 1.0f);
  values[4 * kOut + 4] = -0.5f;
  replace("sum_dydyt", H5T_IEEE_F32LE, {kOut, kOut}, values);
  EXPECT_TRUE(refused("'sum_dydyt'", "negative diagonal, -0.5 at 4"));
}

TEST_F(HostileStatsFile, AnOutputHessianThatIsNotFiniteIsRefused) {
  std::vector<float> values(kOut * kOut, 1.0f);
  values[9] = std::numeric_limits<float>::infinity();
  replace("sum_dydyt", H5T_IEEE_F32LE, {kOut, kOut}, values);
  EXPECT_TRUE(refused("'sum_dydyt'", "inf at index 9"));
}

TEST_F(HostileStatsFile, AMissingOutputHessianIsNamed) {
  change([](hid_t layer) { H5Ldelete(layer, "sum_dydyt", H5P_DEFAULT); });
  EXPECT_TRUE(refused("'sum_dydyt' is missing"));
}

// In a file with the head a layer may be without it; which one the head is, the model knows.
TEST_F(HostileStatsFile, AMissingOutputHessianBesideAHeadIsTheCallersError) {
  change([](hid_t layer) { H5Ldelete(layer, "sum_dydyt", H5P_DEFAULT); });
  set_text("head", "yes");
  const auto file = StatsFile::open(path_);
  EXPECT_FALSE(file->layer(kLayer).holds.output_hessian);
  EXPECT_NO_THROW(file->read(kLayer));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { file->read(kLayer, {.output_hessian = true}); }, "calib.h5",
                                                 "output-hessian"));
}

TEST_F(HostileStatsFile, AnOutputHessianThatTheSettingsDoNotNameIsNotRead) {
  set_text("collected", "activations,fisher,hessian");
  for (const char* head : {"no", "yes"}) {
    set_text("head", head);
    const auto file = StatsFile::open(path_);
    EXPECT_EQ(file->read(kLayer).sum_dydyt.size(), 0u) << head;
    EXPECT_TRUE(
        test::throws_with<InvalidArgument>([&] { file->read(kLayer, {.output_hessian = true}); }, "but the run"));
  }
}

TEST_F(HostileStatsFile, AHugeOutputHessianIsRefusedBeforeAllocating) {
  set_number(".", "out", 1ull << 28);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_alloc_time(creation, H5D_ALLOC_TIME_LATE);
  replace("sum_dydyt", H5T_IEEE_F32LE, {1ull << 28, 1ull << 28}, std::vector<float>(), creation);
  H5Pclose(creation);
  EXPECT_TRUE(test::throws_with<FormatError>([&] { StatsFile::open(path_)->read(kLayer, {.output_hessian = true}); },
                                             "'sum_dydyt'", "stored bytes"));
}

TEST_F(HostileStatsFile, CountsThatDisagreeWithTheSettingsAreRefused) {
  set_number("/", "windows", 4);
  EXPECT_TRUE(refused("3 windows with 21 tokens in all", "4 windows of 7 tokens"));
}

TEST_F(HostileStatsFile, CountsThatOverflowAreRefused) {
  set_number("/", "windows", 1ull << 63);
  EXPECT_TRUE(refused("overflows"));
}

TEST_F(HostileStatsFile, NoLayersAreRefused) {
  change([](hid_t layer) { H5Ldelete(layer, (std::string("/layers/") + kLayer).c_str(), H5P_DEFAULT); });
  EXPECT_TRUE(refused("holds no layers"));
}

// HDF5 1.10.8 frees what it never set when it lists a group whose table of links is broken: found by fuzzing.
TEST_F(HostileStatsFile, ABrokenTableOfLayersIsRefused) {
  {
    StatsWriter writer(path_, example_settings(kCollected));
    for (int i = 0; i < 20; ++i) writer.add(example_layer("proj." + std::to_string(100 + i), 2, 2, 1, kCollected));
    writer.commit();
  }
  const std::string good = test::read_file(path_);
  for (const char* name : {"proj.100", "proj.110", "proj.119"}) {
    std::string broken = good;
    const std::size_t at = broken.find(name);
    ASSERT_NE(at, std::string::npos);
    broken[at] ^= 1;
    test::write_file(path_, broken);
    EXPECT_THROW(static_cast<void>(StatsFile::open(path_)), FormatError) << name;
  }
}

TEST_F(HostileStatsFile, AnUnknownLayerSuggestsTheNearest) {
  const auto file = StatsFile::open(path_);
  EXPECT_TRUE(test::throws_with<FormatError>([&] { static_cast<void>(file->layer("h.0.attn.c_atn")); },
                                             "'h.0.attn.c_atn'", "did you mean 'h.0.attn.c_attn'"));
}

TEST_F(HostileStatsFile, AStatisticThatWasNotCollectedIsTheCallersError) {
  const auto file = StatsFile::open(path_);
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { file->read(kLayer, {.guided_hessian = true}); },
                                                 "guided-hessian",
                                                 "collected activations,fisher,hessian,output-hessian"));
}

}  // namespace
}  // namespace nibble::calib
