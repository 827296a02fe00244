// SPDX-License-Identifier: Apache-2.0
// Mistakes on the command line, each with its exit code and exact text: tests/rejected/cli/<name>.txt.
#include <gmock/gmock.h>

#include "cli/program.hpp"

namespace tessera {
namespace {

struct Mistake {
  char const* name;
  char const* arguments;
  int exit;
};

std::string const k_inputs = std::string(TESSERA_SOURCE_DIR) + "/tests/rejected/cli/inputs";

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreAnsweredWithWhatWasMeant) {
  auto const& mistake = GetParam();
  auto const said = tessera_says(mistake.arguments, k_inputs);
  EXPECT_EQ(said.exit, mistake.exit);
  EXPECT_EQ(said.out, "");
  expect_golden(std::string("$ tessera ") + mistake.arguments + "\n" + said.err + "exit code " +
                    std::to_string(said.exit) + "\n",
                std::string("tests/rejected/cli/") + mistake.name + ".txt");
}

INSTANTIATE_TEST_SUITE_P(
    Cli, Mistakes,
    testing::Values(
        Mistake{"no_command", "", 2}, Mistake{"unknown_command", "simluate plan.json", 2},
        Mistake{"unknown_option", "plan llama-65b --tokns 64", 2},
        Mistake{"unknown_option_without_a_guess", "plan llama-65b --frobnicate", 2},
        Mistake{"missing_argument", "plan", 2}, Mistake{"missing_value", "plan llama-65b --tokens", 2},
        Mistake{"one_argument_too_many", "simulate plan.json other.json", 2},
        Mistake{"wrong_type", "plan llama-65b --tp eight", 2},
        Mistake{"empty_value", "plan llama-65b --tp ''", 2},
        Mistake{"number_of_another_base", "plan llama-65b --tp 0x10", 2},
        Mistake{"number_beyond_64_bits",
                "run llama-3.2-1b --decode --prompt-ids 1 --seed 99999999999999999999", 2},
        Mistake{"no_number", "run lattice-boltzmann --tau nan", 2},
        Mistake{"alternatives_of_a_code", "explain E0103 --alternatives 5", 2},
        Mistake{"architecture_for_tiles", "check two-gemms --arch sm_80", 2},
        Mistake{"out_of_range", "explain E0901 --alternatives -1", 2},
        Mistake{"unknown_workload", "plan lama-65b", 2},
        Mistake{"tune_of_attention", "tune llama-65b --block attention", 2},
        Mistake{"run_of_ragged_attention", "run llama-65b --block attention --tp 8 --tokens 100", 2},
        Mistake{"planned_run_of_attention", "run llama-65b --block attention --tokens 64 --planned", 2},
        Mistake{"strided_sync_alone", "plan llama-65b --block attention --tokens 64 --policy StridedSync", 1},
        Mistake{"bench_of_fused_attention", "bench workload llama-65b --block fused_attention --tp 8", 2},
        Mistake{"run_of_cached_attention",
                "run llama-65b --block fused_attention --tokens 512 --cached 100 --planned --machine h200",
                2},
        Mistake{"plan_of_odd_heads", "plan odd_heads.json --block fused_attention --tokens 64", 1},
        Mistake{"check_of_odd_heads", "check odd_heads.json --block fused_attention --tokens 64", 1},
        Mistake{"bench_of_a_layer", "bench mlp llama-3-8b --block layer", 2},
        Mistake{"tune_of_a_layer_behind_a_cache", "tune llama-3-8b --block layer --tokens 64 --cached 64", 2},
        Mistake{"run_of_a_layer_behind_a_cache", "run llama-3-8b --block layer --tokens 64 --cached 64", 2},
        Mistake{"layer_of_fp16", "plan llama-3-8b --block layer --tokens 512 --dtype fp16", 1},
        Mistake{"layer_of_odd_heads", "plan odd_heads.json --block layer --tokens 64", 1},
        Mistake{"layer_of_experts", "plan mixture.json --block layer --tokens 64", 1},
        Mistake{"layer_of_another_family", "check gemma.json --block layer --tokens 64", 1},
        Mistake{"layer_for_an_a100", "check llama-3-8b --block layer --tokens 64 --arch sm_80", 1},
        Mistake{"heads_that_do_not_divide", "plan qwen2.5-7b --block fused_attention --tokens 512 --tp 8", 1},
        Mistake{"run_of_a_network", "run resnet-38 --planned", 2},
        Mistake{"tune_of_fp32", "tune products_of_fp32.json", 2},
        Mistake{"plan_of_fp32", "plan products_of_fp32.json", 1},
        Mistake{"sizes_for_a_plan", "run a_plan.json --tokens 768 --tp 8", 2},
        Mistake{"planned_for_a_plan", "run a_plan.json --planned --machine h200 --cache tune.json", 2},
        Mistake{"timeline_of_two_sizes", "run llama-65b --tokens 1,768 --timeline t.json", 2},
        Mistake{"machine_without_planned", "run llama-65b --machine h200", 2},
        Mistake{"cache_for_what_is_planned", "run llama-65b --planned --cache tune.json", 2},
        Mistake{"decode_of_an_unknown_model", "run llama-3.2-1 --decode --prompt-ids 1", 2},
        Mistake{"decode_beyond_the_memory", "run gpt-3-145b --decode --prompt-ids 1", 1},
        Mistake{"decode_of_a_network", "run resnet-38 --decode --prompt-ids 1", 1},
        Mistake{"decode_of_a_plan", "run a_plan.json --decode --prompt-ids 1", 1},
        Mistake{"decode_without_a_prompt", "run llama-3.2-1b --decode", 2},
        Mistake{"decode_of_an_id_beyond_the_vocabulary", "run llama-3.2-1b --decode --prompt-ids 1,2,128256",
                2},
        Mistake{"decode_of_words", "run llama-3.2-1b --decode --prompt-ids prompts_of_words.txt", 2},
        Mistake{"decode_of_two_commas", "run llama-3.2-1b --decode --prompt-ids 1,,2", 2},
        Mistake{"decode_of_a_comma_at_the_end", "run llama-3.2-1b --decode --prompt-ids '1 2,'", 2},
        Mistake{"flow_into_a_record", "run lattice-boltzmann -o x --seed 1", 2},
        Mistake{"decode_of_an_empty_file", "run llama-3.2-1b --decode --prompt-ids empty_prompts.txt", 2},
        Mistake{"decode_beyond_its_capacity",
                "run llama-3.2-1b --decode --prompt-ids 1,2,3 --new-tokens 126 --capacity 128", 1},
        Mistake{"decode_of_more_tokens_than_there_can_be",
                "run llama-3.2-1b --decode --prompt-ids 1,2,3 --new-tokens 131072", 1},
        Mistake{"decode_of_a_model_larger_than_memory", "run llama-3-70b --decode --prompt-ids 1", 1},
        Mistake{"decode_of_a_cache_larger_than_memory",
                "run llama-3-8b --decode --machine a100 --prompt-ids prompts_of_64.txt --new-tokens 30000",
                1},
        Mistake{"decode_with_other_options",
                "run llama-3.2-1b --decode --prompt-ids 1 --tokens 64 --tp 8 --block mlp --quick", 2},
        Mistake{"decode_of_what_is_planned", "run llama-3.2-1b --decode --prompt-ids 1 --planned", 2},
        Mistake{"options_of_decode_without_it", "run llama-3.2-1b --prompt-ids 1 --new-tokens 5", 2},
        Mistake{"top_k_without_a_temperature", "run llama-3.2-1b --decode --prompt-ids 1 --top-k 50", 2},
        Mistake{"temperature_of_no_draw", "run llama-3.2-1b --decode --prompt-ids 1 --temperature -1", 1},
        Mistake{"top_p_of_nothing", "run llama-3.2-1b --decode --prompt-ids 1 --temperature 1 --top-p 0", 1},
        Mistake{"stop_beyond_the_vocabulary", "run llama-3.2-1b --decode --prompt-ids 1 --stop-id 128256", 2},
        Mistake{"decode_with_a_seed_below_0", "run llama-3.2-1b --decode --prompt-ids 1 --seed -1", 2},
        Mistake{"decode_of_no_tokens", "run llama-3.2-1b --decode --prompt-ids 1 --new-tokens 0", 2},
        Mistake{"decode_with_weights_of_nothing", "run llama-3.2-1b --decode --prompt-ids 1 --weights ..", 1},
        Mistake{"tune_of_a_plan", "tune a_plan.json", 1}, Mistake{"unknown_benchmark", "bench nosuch", 2},
        Mistake{"unknown_benchmark_with_a_guess", "bench worklaod lora", 2},
        Mistake{"no_benchmark", "bench", 2}, Mistake{"two_letters_swapped", "plan lroa", 2},
        Mistake{"unknown_machine", "plan llama-65b --machine h20", 2},
        Mistake{"unknown_mechanism", "plan llama-65b --mechanism fuse", 2},
        Mistake{"unknown_architecture", "check llama-65b --arch sm_9", 2},
        Mistake{"bad_size", "plan llama-65b --tokens 64,1k", 2},
        Mistake{"zero_size", "plan llama-65b --tokens 0", 2},
        Mistake{"empty_size", "plan llama-65b --tokens 1,,2", 2},
        Mistake{"huge_size", "plan llama-65b --tokens 99999999999999999999", 2},
        Mistake{"no_iterations", "check jacobi --iterations 0", 2},
        Mistake{"too_many_iterations", "plan jacobi --iterations 10,4097", 2},
        Mistake{"too_many_iterations_together", "check jacobi --iterations 900,901,902", 1},
        Mistake{"too_many_sizes_together", "plan llama-65b --tokens 100000,100001,100002", 1},
        Mistake{"run_beyond_two_seconds",
                "simulate --study t3 --model gpt-3-145b --tp 8 --tokens 16384 --layer FC-2 --config t3", 1},
        Mistake{"tokens_for_a_network", "plan resnet-38 --layer 7x7x512 --tokens 64", 2},
        Mistake{"network_without_a_layer", "plan resnet-38", 2},
        Mistake{"unknown_layer", "plan resnet-38 --layer 56x56", 2},
        Mistake{"why_not_without_shared_memory", "why-not --first 384,168 --second 384,168,0", 2},
        Mistake{"why_not_with_huge_numbers", "why-not --first 384,168,99999999999 --second 384,168,0", 2},
        Mistake{"unknown_code", "explain E0999", 2}, Mistake{"missing_file", "simulate emty.json", 3},
        Mistake{"folder_for_a_file", "simulate ../inputs", 3}, Mistake{"not_json", "explain notes.txt", 1},
        Mistake{"doctor_of_a_gpu_and_of_sources", "doctor --gpu --sources .", 2},
        Mistake{"plan_of_a_whole_network", "plan resnet-50", 2},
        Mistake{"tune_of_a_whole_network", "tune resnet-50", 2},
        Mistake{"predict_of_no_model", "run two-gemms --predict", 2},
        Mistake{"predict_of_a_layer", "run vgg-19 --layer 7x7x512 --predict", 2},
        Mistake{"run_of_a_layer_of_fp16", "run resnet-38 --layer 7x7x512", 2},
        Mistake{"check_of_fp32", "check products_of_fp32.json", 1},
        Mistake{"standard_input_twice", "diff - -", 2},
        Mistake{"option_given_twice", "plan llama-65b --tokens 64 --tokens 128", 2},
        Mistake{"two_outputs_in_one_place",
                "plan llama-3.2-1b --machine v100 --mechanism stream_order -o plan.json --csv plan.json", 2},
        Mistake{"two_outputs_on_standard_output",
                "plan llama-3.2-1b --machine v100 --mechanism stream_order -o - --csv -", 2},
        Mistake{"output_without_a_name", "plan llama-65b -o ''", 2},
        Mistake{"folder_for_a_workload", "plan .", 3},
        Mistake{"no_json_for_a_machine", "plan llama-65b --machine notes.txt", 1},
        Mistake{"no_such_launch", "plan llama-65b --machine v100 --mechanism pdl", 1},
        Mistake{"workload_for_a_plan", "simulate config.json", 1},
        Mistake{"plan_for_a_workload", "plan empty.json", 1},
        Mistake{"missing_folder",
                "plan llama-3.2-1b --machine v100 --mechanism stream_order -o nowhere/plan.json", 3},
        Mistake{"no_folder_for_what_is_too_large", "plan llama-3-8b --tokens 16777216 -o nowhere/plan.json",
                3},
        Mistake{"no_folder_for_one_of_two_sizes", "plan llama-3-8b --tokens 16777216,1 --dot nowhere/d", 3},
        Mistake{"sweep_of_nothing", "sweep llama-65b", 2},
        Mistake{"sweep_without_a_subject", "sweep --set l2_mib=25", 2},
        Mistake{"sweep_of_an_unknown_field", "sweep --study t3 --set link_gbps=50", 2},
        Mistake{"sweep_out_of_range", "sweep --study t3 --set overlap.link_gbps=0,50", 2},
        Mistake{"sweep_of_an_empty_list", "sweep --study t3 --set stages=", 2},
        Mistake{"sweep_of_too_many_points",
                "sweep --study t3 --set sms=1:100:1 --set hidden=1:100:1 --set tokens=1:100:1", 2},
        Mistake{"sweep_of_a_kernel_that_is_planned", "sweep llama-65b --set tile_m=64,128", 2},
        Mistake{"sweep_with_two_sizes", "sweep llama-65b --tokens 1,64 --set sms=80", 2},
        Mistake{"sweep_of_a_block_for_the_study", "sweep --study t3 --block mlp --set sms=80", 2},
        Mistake{"sweep_share_that_is_none", "sweep llama-65b --set sms=80 --shard 9/8", 2},
        Mistake{"sweep_without_a_format", "sweep llama-65b --set sms=80 -o points.txt", 2},
        Mistake{"sweep_into_another_file", "sweep llama-65b --set sms=80 -o empty.json", 1},
        Mistake{"merge_of_no_table", "sweep --merge empty.json", 1},
        Mistake{"merge_of_a_workload", "sweep llama-65b --set sms=80 --merge a.csv", 2},
        Mistake{"sensitivity_of_a_grid", "sweep llama-65b --sensitivity --set sms=80,160", 2},
        Mistake{"sensitivity_of_an_unknown_result", "sweep llama-65b --sensitivity --result t3", 2},
        Mistake{"sensitivity_by_nothing", "sweep llama-65b --sensitivity --by 0", 2},
        Mistake{"sensitivity_by_a_tenth", "sweep llama-65b --sensitivity --by 0.1", 2},
        Mistake{"sensitivity_of_a_share", "sweep llama-65b --sensitivity --shard 1/8 --fresh", 2},
        Mistake{"sweep_by_a_percentage", "sweep llama-65b --set sms=80 --by 5% --result us", 2},
        Mistake{"parameters_into_a_file", "sweep llama-65b --parameters -o parameters.csv --set sms=80", 2},
        Mistake{"merge_with_a_percentage", "sweep --merge a.csv --by 5%", 2},
        Mistake{"study_of_an_unknown_model", "simulate --study t3 --model T-NLGG", 2},
        Mistake{"sweep_of_a_kernel_that_fits_no_sm",
                "sweep --study t3 --set tile_m=1024 --set tile_n=1024 --model T-NLG --tp 8", 1},
        Mistake{"run_of_an_unknown_layer", "simulate --study t3 --model T-NLG --layer FC-3 --config t3", 2},
        Mistake{"run_of_an_unknown_configuration",
                "simulate --study t3 --model T-NLG --layer FC-2 --config t3mca", 2},
        Mistake{"run_without_a_configuration", "simulate --study t3 --model T-NLG --tp 8 --layer FC-2", 2},
        Mistake{"run_without_a_model", "simulate --study t3 --tp 8 --layer FC-2 --config t3", 2},
        Mistake{"run_of_two_degrees", "simulate --study t3 --model T-NLG --layer FC-2 --config t3", 2},
        Mistake{"run_of_another_study", "simulate --study cusync --layer FC-2 --config t3", 2},
        Mistake{"run_with_a_collective",
                "simulate --study t3 --collective all_reduce --model T-NLG --tp 8 --layer FC-2 --config t3",
                2},
        Mistake{"quick_run", "simulate --study t3 --quick --model T-NLG --tp 8 --layer FC-2 --config t3", 2},
        Mistake{"cusync_with_options_of_t3",
                "simulate --study cusync --splits 2 --model T-NLG --tokens 5 --tp 3", 2},
        Mistake{"cusync_quick_collective", "simulate --study cusync --collective all_reduce --quick", 2},
        Mistake{"plan_with_options_of_t3", "simulate a_plan.json --tp 8", 2},
        Mistake{"quick_collective",
                "simulate --study t3 --collective all_reduce --quick --model T-NLG --tp 8", 2},
        Mistake{"quick_splits", "simulate --study t3 --splits 2 --quick --model T-NLG --tp 8", 2},
        Mistake{"sweep_of_tokens_twice",
                "sweep --study t3 --model T-NLG --tp 8 --tokens 512 --set tokens=256", 2},
        Mistake{"sweep_of_degrees_twice", "sweep --study t3 --model T-NLG --tp 8 --set tp=4", 2},
        Mistake{"sweep_of_a_plan_of_tokens_twice",
                "sweep llama-65b --tokens 768 --tp 8 --set tokens=512,1024", 2},
        Mistake{"study_into_no_folder", "simulate --study t3 -o nowhere/s.json", 3},
        Mistake{"study_into_one_file_twice", "simulate --study t3 -o s.json --csv ./s.json", 2},
        Mistake{"study_into_a_folder", "simulate --study t3 --html ../inputs", 3},
        Mistake{"study_into_a_file_as_a_folder", "simulate --study t3 --csv notes.txt/s.csv", 3},
        Mistake{"sensitivity_into_no_folder", "sweep --study t3 --sensitivity -o nowhere/s.csv", 3},
        Mistake{"sweep_into_one_file_twice", "sweep --study t3 --set sms=80 -o s.csv --html s.csv", 2},
        Mistake{"routing_of_a_word", "plan llama-65b --block experts --routing 100,x", 2},
        Mistake{"layers_of_an_mlp", "plan llama-65b --layers 4", 2},
        Mistake{"more_layers_than_there_are", "plan llama-3-8b --block layer --layers 33", 2},
        Mistake{"layers_of_a_word", "plan llama-3-8b --block layer --layers many", 2},
        Mistake{"prompts_of_an_mlp", "plan llama-65b --prompts 5,8", 2},
        Mistake{"prompts_and_tokens", "plan llama-3-8b --block layer --prompts 5,8 --tokens 4", 2},
        Mistake{"prompt_of_a_word", "plan llama-3-8b --block layer --prompts 5,x", 2},
        Mistake{"prompts_behind_a_cache", "run llama-3-8b --block layer --prompts 5,8 --cached 4", 2},
        Mistake{"routing_where_nothing_is_routed", "plan llama-65b --tokens 4 --routing 4", 2},
        Mistake{"diff_of_a_study", "diff a_study.json a_study.json", 1},
        Mistake{"splits_of_no_equal_tiles", "simulate --study t3 --splits 2 --model T-NLG --tp 8", 1},
        Mistake{"run_of_too_many_tokens",
                "simulate --study t3 --model T-NLG --tp 8 --tokens 16777216 --layer FC-2 --config t3", 1},
        Mistake{"run_of_too_many_transfers",
                "simulate --study t3 --model T-NLG --tp 16 --tokens 655360 --layer OP --config t3", 1},
        Mistake{"run_of_no_equal_chunks", "simulate --study t3 --model T-NLG --tp 9 --layer FC-2 --config t3",
                1},
        Mistake{
            "run_of_no_equal_panels",
            "simulate --study t3 --model T-NLG --tp 8 --tokens 1000 --layer FC-2 --config all_gather_gemm",
            1},
        Mistake{"run_of_a_plan_and_a_study", "simulate a_plan.json --layer FC-2 --config t3", 2},
        Mistake{"trace_of_a_study", "simulate --study t3 --trace trace.json", 2},
        Mistake{"two_pages_in_one_place",
                "simulate --study t3 --model llama-3.2-1b --tokens 2048 --tp 8 --layer FC-2 --config gemm "
                "--html page.html --trace page.html",
                2},
        Mistake{"unknown_model_family", "plan unknown_family.json", 1}),
    [](auto const& test) { return std::string(test.param.name); });

TEST(Mistakes, EveryGoldenFileIsOfATest) {
  std::set<std::string> tested;
  auto const* suite = testing::UnitTest::GetInstance();
  for (int s = 0; s < suite->total_test_suite_count(); ++s)
    for (int t = 0; t < suite->GetTestSuite(s)->total_test_count(); ++t) {
      std::string const name = suite->GetTestSuite(s)->GetTestInfo(t)->name();
      tested.insert(name.substr(name.find('/') + 1) + ".txt");
    }
  for (auto const& file : std::filesystem::directory_iterator(k_inputs + "/.."))
    if (file.is_regular_file()) {
      EXPECT_EQ(tested.count(file.path().filename().string()), 1u) << file.path();
    }
}

}  // namespace
}  // namespace tessera
