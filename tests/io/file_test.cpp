// Files replaced as a whole, whatever comes between, and files that grow.
#include <algorithm>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/io/file.hpp>
#include <weft/io/safetensors.hpp>
#include <weft/io/tensor_store.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/create.hpp>

#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

std::string io_error(const auto& f) {
  try {
    f();
  } catch (const IoError& error) {
    return error.what();
  }
  return "no IoError";
}

// Runs `body` in a process of its own; it ends there.
pid_t in_child(const auto& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  return child;
}

// ---- files that another program cuts short while they are mapped ----

TEST(ReadScope, TruncatedFilesRaiseInsteadOfASignal) {
  const TemporaryFolder folder;
  const auto cut_to = [&](off_t bytes) { ASSERT_EQ(truncate((folder / "f").c_str(), bytes), 0); };
  // Whole pages are gone, or a part of one, which gives zeros and no signal.
  for (const off_t left : {0, 5000, 3 * 4096, 4 * 4096 - 1}) {
    write_bytes(folder / "f", std::string(4 * 4096, 'x'));
    const std::string words = io_error([&] {
      const io::ReadScope reading;
      const io::MappedFile file = io::MappedFile::open(folder / "f", "test");
      cut_to(left);
      int64_t sum = 0;
      for (const std::byte b : file.bytes()) sum += std::to_integer<int>(b);
      EXPECT_EQ(sum, left * 'x');
      reading.check("test");
    });
    EXPECT_THAT(words, HasSubstr("cut"));
    EXPECT_THAT(words, HasSubstr((folder / "f").string()));
  }
  // A scope does not answer for files that were cut before it.
  const io::ReadScope reading;
  reading.check("test");
}

TEST(ReadScope, LoadersReportTruncatedFiles) {
  const TemporaryFolder folder;
  const auto fresh = [&](const char* name) {
    io::save_file({{"a", ones({5000})}, {"b", arange(5000).to(f32)}}, folder / name);
    return io::SafeFile::open(folder / name);
  };
  const auto cut = [&](const char* name) { ASSERT_EQ(truncate((folder / name).c_str(), 4096), 0); };
  const io::SafeFile copied = fresh("1");
  cut("1");
  EXPECT_THAT(io_error([&] { (void)io::TensorStore(copied).copy("b"); }), HasSubstr("cut"));
  const io::SafeFile into = fresh("2");
  cut("2");
  const Tensor a = zeros({5000}), b = zeros({5000});
  EXPECT_THAT(io_error([&] { io::load_into({{"a", a}, {"b", b}}, into); }), HasSubstr("cut"));
}

TEST(ReadScope, WithoutAMappingTheFileMayChange) {
  const TemporaryFolder folder;
  io::save_file({{"a", arange(5000)}}, folder / "f");
  const io::TensorMap loaded = io::load_file(folder / "f", {}, {}, {.mmap = false});
  const io::SafeFile file = io::SafeFile::open(folder / "f", {.mmap = false});
  ASSERT_EQ(truncate((folder / "f").c_str(), 0), 0);
  EXPECT_TRUE(equal(loaded.at("a"), arange(5000)));
  EXPECT_TRUE(equal(file.get("a"), arange(5000)));
}

TEST(ReadScope, AViewOfACutFileEndsTheProcessWithTheReason) {
  const TemporaryFolder folder;
  io::save_file({{"a", arange(5000)}}, folder / "f");
  const auto reads = [&] {
    const Tensor a = io::load_file(folder / "f").at("a");
    if (truncate((folder / "f").c_str(), 0) != 0) _exit(1);
    (void)a.clone();
  };
  const auto failed = [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) > 1; };
  EXPECT_EXIT(reads(), failed, "cut a mapped file short: .*f\n.*mmap=false");
}

// A loader that met the loss raises; the zeros that it read are not left to views of the file.
TEST(ReadScope, AViewOfACutFileReadsNoZerosAfterALoaderDid) {
  const TemporaryFolder folder;
  io::save_file({{"a", arange(5000)}}, folder / "f");
  const auto reads = [&] {
    const Tensor a = io::load_file(folder / "f").at("a");
    if (truncate((folder / "f").c_str(), 0) != 0) _exit(1);
    {
      const io::ReadScope reading;
      (void)a.clone();
      if (io_error([&] { reading.check("test"); }).find("cut") == std::string::npos) _exit(1);
    }
    (void)a.clone();
    _exit(1);
  };
  const auto failed = [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) > 1; };
  EXPECT_EXIT(reads(), failed, "cut a mapped file short: .*f\n.*mmap=false");
}

TEST(AtomicFile, AProcessOfTheSameNumberLeftItsTemporaryFile) {
  const TemporaryFolder folder;
  // In a container every run may have the same process number: files of an earlier run do not interfere.
  for (int i = 0; i < 20; ++i)
    write_bytes(folder / ("f." + std::to_string(getpid()) + "." + std::to_string(i) + ".tmp"), "left");
  io::write_file(folder / "f", "new", "test");
  EXPECT_EQ(read_bytes(folder / "f"), "new");
}

TEST(AtomicFile, RemovesTemporaryFilesOfAKilledProcess) {
  const TemporaryFolder folder;
  int status = 0;
  const pid_t child = in_child([&] {
    io::AtomicFile file(folder / "f", "test");
    file.write("half", 4);
    ::raise(SIGKILL);
  });
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(names_in(folder.path()).size(), 1u);
  EXPECT_THAT(names_in(folder.path())[0], testing::MatchesRegex("f\\.[0-9a-f]{16}\\.weft-tmp"));
  io::write_file(folder / "g", "another file's", "test");
  EXPECT_EQ(names_in(folder.path()).size(), 2u);
  io::write_file(folder / "f", "whole", "test");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("f", "g"));
}

TEST(AtomicFile, KeepsTemporaryFilesOfRunningWrites) {
  const TemporaryFolder folder;
  io::AtomicFile mine(folder / "f", "test");
  mine.write("mine", 4);
  io::write_file(folder / "f", "other", "test");
  EXPECT_EQ(read_bytes(folder / "f"), "other");
  mine.commit();
  EXPECT_EQ(read_bytes(folder / "f"), "mine");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("f"));
}

TEST(AtomicFile, OnlyItsOwnNamesAreRemoved) {
  const TemporaryFolder folder;
  const std::vector<std::string> strangers = {"f.0123456789abcde.weft-tmp", "f.0123456789abcdeg.weft-tmp",
                                              "f.0123456789abcdef.tmp", "ff.0123456789abcdef.weft-tmp",
                                              "f.0123456789abcdef.weft-tmp2"};
  for (const std::string& name : strangers) write_bytes(folder / name, "keep");
  write_bytes(folder / "victim", "keep");
  std::filesystem::create_symlink(folder / "victim", folder / "f.aaaaaaaaaaaaaaaa.weft-tmp");
  std::filesystem::create_directory(folder / "f.bbbbbbbbbbbbbbbb.weft-tmp");
  ASSERT_EQ(mkfifo((folder / "f.cccccccccccccccc.weft-tmp").c_str(), 0600), 0);
  const auto before = names_in(folder.path());
  io::write_file(folder / "f", "x", "test");
  std::vector<std::string> expected = before;
  expected.insert(std::ranges::lower_bound(expected, "f"), "f");
  EXPECT_EQ(names_in(folder.path()), expected);
  EXPECT_EQ(read_bytes(folder / "victim"), "keep");
}

TEST(AtomicFile, LinksAreFollowedAndPermissionsKept) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "disk");
  write_bytes(folder / "disk" / "real", "old");
  ASSERT_EQ(chmod((folder / "disk" / "real").c_str(), 0640), 0);
  std::filesystem::create_symlink("disk/real", folder / "link");
  std::filesystem::create_symlink(folder / "link", folder / "second");
  io::write_file(folder / "second", "new", "test");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_bytes(folder / "disk" / "real"), "new");
  EXPECT_EQ(static_cast<int>(std::filesystem::status(folder / "disk" / "real").permissions()), 0640);
  std::filesystem::create_symlink("disk/later", folder / "dangling");
  io::write_file(folder / "dangling", "made", "test");
  EXPECT_EQ(read_bytes(folder / "disk" / "later"), "made");
  std::filesystem::create_symlink("b", folder / "a");
  std::filesystem::create_symlink("a", folder / "b");
  EXPECT_THAT(io_error([&] { io::write_file(folder / "a", "x", "test"); }), HasSubstr("Too many levels"));
}

TEST(AtomicFile, NothingButAFileIsReplaced) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "folder");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const std::pair<const char*, const char*> bad[] = {{"folder", "it is a folder"},   {"folder/", "it is a folder"},
                                                     {"pipe", "it is a pipe"},       {"no/file", "No such file"},
                                                     {"folder/no/", "No such file"}, {"..", "it is a folder"}};
  for (const auto& [name, words] : bad) {
    EXPECT_THAT(io_error([&] { io::write_file(folder.path().string() + "/" + name, "x", "test"); }), HasSubstr(words))
        << name;
  }
  EXPECT_THAT(io_error([] { io::write_file("", "x", "test"); }), HasSubstr("No such file"));
  EXPECT_THAT(io_error([] { io::write_file("/dev/null", "x", "test"); }), HasSubstr("it is no regular file"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("folder", "pipe"));
  EXPECT_THAT(names_in(folder / "folder"), ElementsAre());
}

TEST(AtomicFile, ReadOnlyFilesAndFoldersAreLeftAlone) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "closed");
  write_bytes(folder / "protected", "old");
  for (const auto& [name, mode] : {std::pair(".", 0777), {"closed", 0555}, {"protected", 0444}}) {
    ASSERT_EQ(chmod((folder / name).c_str(), static_cast<mode_t>(mode)), 0);
  }
  const pid_t child = in_child([&] {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(1);  // root may write everywhere
    const auto refused = [](const auto& f) { return io_error(f).find("Permission denied") != std::string::npos; };
    if (!refused([&] { io::write_file(folder / "protected", "x", "test"); })) _exit(2);
    if (!refused([&] { io::check_writable(folder / "closed" / "f", "test"); })) _exit(3);
  });
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(read_bytes(folder / "protected"), "old");
}

TEST(AtomicFile, AnyNameThatAFileMayHave) {
  const TemporaryFolder folder;
  std::string longest;
  while (longest.size() + 2 <= 254) longest += "ä";
  for (const std::string& name : {std::string("with spaces and 'quotes'"), std::string("größe ∑ 重み"), longest,
                                  std::string(255, 'x'), std::string("-"), std::string(".hidden")}) {
    io::save_file({{"x", ones(2)}}, folder / name);
    EXPECT_EQ(io::load_file(folder / name).at("x").to_vector<int>(), (std::vector<int>{1, 1})) << name;
  }
  EXPECT_EQ(names_in(folder.path()).size(), 6u);
}

TEST(AtomicFile, AFullDiskKeepsTheOldFileAndRaises) {
  const TemporaryFolder folder;
  io::save_file({{"x", ones(10)}}, folder / "f");
  const std::string before = read_bytes(folder / "f");
  const pid_t child = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    for (const int64_t n : {int64_t{100'000}, int64_t{1'000'000}}) {
      const std::string words = io_error([&] { io::save_file({{"x", ones(n)}}, folder / "f"); });
      if (words.find("cannot write") == words.npos || words.find("File too large") == words.npos) _exit(1);
    }
    io::save_file({{"x", ones(20)}}, folder / "g");
  });
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_bytes(folder / "f"), before);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("f", "g"));
}

TEST(AtomicFile, NothingIsCommittedAfterAFailedWrite) {
  const TemporaryFolder folder;
  const pid_t child = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    io::AtomicFile file(folder / "f", "test");
    const std::string much(1 << 20, 'x');
    io_error([&] { file.write(much.data(), much.size()); });
    const rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &none);
    io_error([&] { file.write("y", 1), file.commit(); });
  });
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(names_in(folder.path()), ElementsAre());
}

// Two processes save the same file and are killed at any moment: readers find a complete old or new file.
TEST(AtomicFile, SavingSurvivesKillsAndRivals) {
  const TemporaryFolder folder;
  const auto values = [](double v) { return io::TensorMap{{"a", full(20'000, v)}, {"b", full(3, v)}}; };
  io::save_file(values(0), folder / "f");
  for (int round = 0; round < 30; ++round) {
    pid_t children[2];
    for (int who = 0; who < 2; ++who) {
      children[who] = in_child([&] {
        for (int i = 0;; ++i) io::save_file(values(1 + 2 * round + who), folder / "f");
      });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(2000 + 731 * round));
    for (const pid_t child : children) {
      ASSERT_EQ(kill(child, SIGKILL), 0);
      ASSERT_EQ(waitpid(child, nullptr, 0), child);
      const io::TensorMap found = io::load_file(folder / "f");
      const auto a = found.at("a").to_vector<int>();
      EXPECT_EQ(std::ranges::count(a, a[0]), 20'000);
      EXPECT_EQ(found.at("b").to_vector<int>(), std::vector<int>(3, a[0]));
    }
  }
  io::save_file(values(-1), folder / "f");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("f"));
}

TEST(Reading, APipeOrFolderIsNeverWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* name : {"pipe", "."}) {
    const std::string words = name[0] == '.' ? "it is a folder" : "it is a pipe";
    EXPECT_THAT(io_error([&] { io::read_file(folder / name, "test"); }), HasSubstr(words));
    EXPECT_THAT(io_error([&] { io::load_file(folder / name); }), HasSubstr(words));
  }
  EXPECT_THAT(io_error([&] { io::read_file("/dev/full", "test"); }), HasSubstr("no regular file"));
}

TEST(Reading, FilesThatTellNoSizeAreReadToTheirEnd) {
  EXPECT_THAT(io::read_file("/proc/self/status", "test"), HasSubstr("Pid:"));
  const TemporaryFolder folder;
  for (const size_t size : {0u, 1u, 4095u, 4096u, 4097u, 100'000u}) {
    write_bytes(folder / "f", std::string(size, 'x'));
    EXPECT_EQ(io::read_file(folder / "f", "test"), std::string(size, 'x'));
  }
}

TEST(GrowingFile, LinesThatCouldNotBeWrittenComeLater) {
  const TemporaryFolder folder;
  const pid_t child = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    io::GrowingFile file(folder / "log", "test");
    const rlimit little = {25, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &little);
    int failures = 0;
    for (int i = 0; i < 5; ++i) {
      file.add("line " + std::to_string(i) + " of it\n");
      failures += io_error([&] { file.flush(); }).find("File too large") != std::string::npos;
    }
    if (failures != 4 || std::filesystem::file_size(folder / "log") != 25) _exit(1);
    const rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &none);
    file.add("the end\n");
    file.flush();
  });
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_bytes(folder / "log"),
            "line 0 of it\nline 1 of it\nline 2 of it\nline 3 of it\nline 4 of it\nthe end\n");
  EXPECT_THAT(io_error([&] { io::GrowingFile(folder / "no" / "log", "test"); }), HasSubstr("No such file"));
  io::GrowingFile full("/dev/full", "test");
  full.add("x");
  EXPECT_THAT(io_error([&] { full.flush(); }), HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace weft
