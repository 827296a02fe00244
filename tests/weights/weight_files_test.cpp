// SPDX-License-Identifier: Apache-2.0
// Folders of weights: what is found in them, and what is missing, by exact text.
#include "tessera/weights/weight_files.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "support/safetensors_writer.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using support::counting_tensor;
using support::safetensors_of;
using support::write_bytes;
using support::WrittenTensor;
using testing::HasSubstr;

class Weights : public testing::Test {
 protected:
  Weights() {
    auto pattern = (fs::temp_directory_path() / "tessera-weights-XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  ~Weights() override { fs::remove_all(folder); }

  void put(std::string const& name, std::vector<WrittenTensor> const& tensors) const {
    write_bytes(folder + "/" + name, safetensors_of(tensors));
  }
  void put_index(std::string const& map) const {
    write_bytes(folder + "/model.safetensors.index.json", R"({"metadata":{},"weight_map":{)" + map + "}}");
  }
  /// With the folder's name taken out.
  std::string without_folder(std::string text) const {
    for (auto at = text.find(folder); at != std::string::npos; at = text.find(folder))
      text.replace(at, folder.size(), "F");
    return text;
  }
  std::string refusal(std::string const& name = "") const {
    auto const found = WeightFiles::open(folder + name);
    return found ? "taken" : without_folder(to_text(found.error()));
  }
  std::string fits(std::vector<WrittenTensor> const& stored, WantedTensors const& wanted) const {
    put("model.safetensors", stored);
    auto const files = WeightFiles::open(folder);
    if (!files) return to_text(files.error());
    auto const ok = check_tensors(*files, wanted);
    return ok ? "fits, " + conversion_text(*files, wanted) : without_folder(to_text(ok.error()));
  }
  std::string folder;
};

TEST_F(Weights, APipeIsNotWaitedFor) {
  ASSERT_EQ(mkfifo((folder + "/model.safetensors").c_str(), 0600), 0);
  EXPECT_EQ(refusal(), "error E0901: cannot read F/model.safetensors: it is not a file");
}

TEST_F(Weights, OneFile) {
  auto const a = counting_tensor("a", "F32", {2, 3}, 4), b = counting_tensor("b", "BF16", {5}, 2);
  put("model.safetensors", {b, a});
  for (auto const* path : {"", "/model.safetensors"}) {
    auto const files = WeightFiles::open(folder + path);
    ASSERT_TRUE(files) << to_text(files.error());
    ASSERT_EQ(files->tensors().size(), 2u);
    EXPECT_EQ(files->tensors()[0].name, "a");
    EXPECT_EQ(files->bytes(), 34u);
    EXPECT_EQ(files->find("c"), nullptr);
    for (auto const& one : {a, b}) {
      auto const* const tensor = files->find(one.name);
      ASSERT_NE(tensor, nullptr);
      std::string bytes(one.bytes.size(), 0);
      ASSERT_TRUE(files->read(*tensor, 0, bytes.size(), bytes.data()));
      EXPECT_EQ(bytes, one.bytes);
      ASSERT_TRUE(files->read(*tensor, 3, 2, bytes.data()));
      EXPECT_EQ(bytes.substr(0, 2), one.bytes.substr(3, 2));
    }
  }
}
TEST_F(Weights, SeveralFilesThatAnIndexNames) {
  auto const a = counting_tensor("a", "BF16", {3}, 2), b = counting_tensor("b", "BF16", {4}, 2),
             c = counting_tensor("c", "F16", {2}, 2);
  put("one.safetensors", {a, c});
  put("two.safetensors", {b});
  put_index(R"("a":"one.safetensors","b":"two.safetensors","c":"one.safetensors")");
  auto const files = WeightFiles::open(folder);
  ASSERT_TRUE(files) << to_text(files.error());
  for (auto const& one : {a, b, c}) {
    std::string bytes(one.bytes.size(), 0);
    ASSERT_TRUE(files->read(*files->find(one.name), 0, bytes.size(), bytes.data()));
    EXPECT_EQ(bytes, one.bytes) << one.name;
  }
  EXPECT_EQ(files->path_of(*files->find("b")), folder + "/two.safetensors");
  // One file goes before an index, as transformers read them.
  put("model.safetensors", {counting_tensor("d", "BF16", {1}, 2)});
  EXPECT_EQ(WeightFiles::open(folder)->tensors().front().name, "d");
}
TEST_F(Weights, IndexesThatAreOfOtherFiles) {
  put("one.safetensors", {counting_tensor("a", "BF16", {3}, 2)});
  put_index(R"("a":"one.safetensors","b":"two.safetensors","c":"two.safetensors")");
  EXPECT_EQ(refusal(),
            "F/model.safetensors.index.json: error E0571: 2 of 3 tensors are in F/two.safetensors, which is "
            "not there\n   hint: copy or download the missing file");
  put("two.safetensors", {counting_tensor("b", "BF16", {3}, 2)});
  EXPECT_EQ(refusal(),
            "F/model.safetensors.index.json: error E0571: tensor \"c\" is not in two.safetensors, where the "
            "index has it\n   hint: the index is of other files: copy or download both again");
  put("two.safetensors", {counting_tensor("b", "BF16", {3}, 2), counting_tensor("c", "BF16", {3}, 2),
                          counting_tensor("d", "BF16", {3}, 2)});
  EXPECT_EQ(
      refusal(),
      "F/model.safetensors.index.json: error E0571: tensor \"d\" is in F/two.safetensors, and the index "
      "does not name it\n   hint: the index is of other files: copy or download both again");
  put_index(R"("a":"one.safetensors","b":"one.safetensors","c":"two.safetensors")");
  put("two.safetensors", {counting_tensor("b", "BF16", {3}, 2), counting_tensor("c", "BF16", {3}, 2)});
  EXPECT_THAT(refusal(), HasSubstr("\"b\" is not in one.safetensors, where the index has it\n"
                                   "   it is in F/two.safetensors"));
  put("two.safetensors", {counting_tensor("a", "BF16", {3}, 2), counting_tensor("c", "BF16", {3}, 2)});
  EXPECT_THAT(refusal(), HasSubstr("tensor \"a\" is in F/one.safetensors and in F/two.safetensors"));
  put_index("");
  EXPECT_THAT(refusal(), HasSubstr("the index names no tensor"));
  put_index(R"("a":"../one.safetensors")");
  EXPECT_THAT(refusal(), HasSubstr("which is no file beside the index"));
}
TEST_F(Weights, FoldersWithoutWeights) {
  EXPECT_EQ(refusal(),
            "F: error E0571: the folder has neither model.safetensors nor model.safetensors.index.json\n"
            "   hint: name the folder that has a model's config.json and its weights");
  write_bytes(folder + "/pytorch_model.bin", "x");
  EXPECT_THAT(refusal(), HasSubstr("save them as safetensors: model.save_pretrained(folder)"));
  put("adapter.safetensors", {});
  EXPECT_THAT(refusal(), HasSubstr("name the file: F/adapter.safetensors"));
  EXPECT_EQ(refusal("/nowhere"), "error E0901: cannot read F/nowhere: No such file or directory");
  fs::create_symlink("model.safetensors", folder + "/model.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("E0"));
}
TEST_F(Weights, FilesThatAreNotWhole) {
  auto const whole =
      safetensors_of({counting_tensor("a", "BF16", {3}, 2), counting_tensor("b", "F32", {9}, 4)});
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    write_bytes(folder + "/model.safetensors", whole.substr(0, bytes));
    EXPECT_THAT(refusal(), HasSubstr("F/model.safetensors: error E0570")) << bytes;
  }
  write_bytes(folder + "/model.safetensors", whole + "x");
  EXPECT_THAT(refusal(), HasSubstr("1 bytes behind the last tensor belong to no tensor"));
  write_bytes(folder + "/model.safetensors", whole);
  auto const files = WeightFiles::open(folder);
  ASSERT_TRUE(files);
  // Shorter after it was opened.
  fs::resize_file(folder + "/model.safetensors", whole.size() - 1);
  std::string bytes(36, 0);
  auto const read = files->read(*files->find("b"), 0, bytes.size(), bytes.data());
  ASSERT_FALSE(read);
  EXPECT_THAT(to_text(read.error()), HasSubstr("error E0901"));
  EXPECT_THAT(to_text(read.error()), HasSubstr("1 early"));
}

WantedTensors const k_wanted{{{"model.a.weight", {4, 2}}, {"model.b.weight", {3}}}, {".inv_freq"}};

TEST_F(Weights, ThoseOfAModelFit) {
  auto const a = counting_tensor("model.a.weight", "BF16", {4, 2}, 2);
  EXPECT_EQ(fits({a, counting_tensor("model.b.weight", "BF16", {3}, 2)}, k_wanted), "fits, BF16 as stored");
  EXPECT_EQ(fits({a, counting_tensor("model.b.weight", "F32", {3}, 4),
                  counting_tensor("model.rotary_emb.inv_freq", "F32", {3}, 4)},
                 k_wanted),
            "fits, 1 tensor of F32 rounded to BF16");
}
TEST_F(Weights, ThoseOfAnotherModelDoNot) {
  auto const a = counting_tensor("model.a.weight", "BF16", {4, 2}, 2),
             b = counting_tensor("model.b.weight", "BF16", {3}, 2);
  EXPECT_EQ(fits({a}, k_wanted),
            "F: error E0572: 1 of 2 tensors are missing: model.b.weight\n"
            "   hint: see that the weights are those of this config.json");
  EXPECT_THAT(fits({a, counting_tensor("model.bb.weight", "BF16", {3}, 2)}, k_wanted),
              HasSubstr("did you mean \"model.bb.weight\"?"));
  EXPECT_EQ(
      fits({counting_tensor("a.weight", "BF16", {4, 2}, 2), counting_tensor("b.weight", "BF16", {3}, 2)},
           {k_wanted.tensors, {"weight"}}),
      "F: error E0572: 2 of 2 tensors are missing: model.a.weight, model.b.weight\n"
      "   hint: here it is called \"a.weight\": save the model with its head (AutoModelForCausalLM)");
  EXPECT_EQ(
      fits({counting_tensor("model.a.weight", "BF16", {2, 4}, 2), b}, k_wanted),
      "F/model.safetensors: error E0572: model.a.weight is [2, 4] of BF16, and the model's is [4, 2] of "
      "BF16\n   hint: see that the weights are those of this config.json");
  EXPECT_EQ(fits({a, counting_tensor("model.b.weight", "F64", {3}, 8)}, k_wanted),
            "F/model.safetensors: error E0572: model.b.weight is [3] of F64\n"
            "   hint: weights are read as BF16, F16 or F32: save them so");
  EXPECT_EQ(fits({a, b, counting_tensor("model.a.bias", "BF16", {4}, 2)}, k_wanted),
            "F: error E0572: products have biases: model.a.bias\n"
            "   hint: a model of this config.json has none: see that the weights are those of it");
  EXPECT_EQ(fits({a, b, counting_tensor("model.q_norm.weight", "BF16", {4}, 2)}, k_wanted),
            "F: error E0572: nobody reads model.q_norm.weight, so this would be another model\n"
            "   hint: see that the weights are those of this config.json");
  EXPECT_EQ(fits({counting_tensor("model.a.weight", "I8", {4, 2}, 1),
                  counting_tensor("model.a.weight_scale", "F32", {4}, 4)},
                 k_wanted),
            "F: error E0572: the weights are quantized: model.a.weight_scale\n"
            "   hint: name a folder with the weights as BF16, F16 or F32");
}
TEST_F(Weights, ManyMistakesAreShort) {
  WantedTensors wanted;
  std::vector<WrittenTensor> stored;
  for (int i = 0; i < 400; ++i) {
    auto const name = "t" + std::to_string(1000 + i);
    wanted.tensors.push_back({name, {2}});
    if (i < 200) stored.push_back(counting_tensor(name, "BF16", {3}, 2));
  }
  auto const text = fits(stored, wanted);
  EXPECT_THAT(text, HasSubstr("200 of 400 tensors are missing: t1200, t1201, t1202 and 197 more"));
  EXPECT_THAT(text, HasSubstr("197 tensors more are of other shapes or types"));
  EXPECT_LT(text.size(), 1500u);
}

}  // namespace
}  // namespace tessera
