"""The command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trainer.base.errors import OptionError
from trainer.config.command_line import parse
from trainer.config.options import OPTIONS, Options

ROOT = Path(__file__).parents[3]


def test_defaults_of_the_command_line_are_those_of_the_options() -> None:
    """Two lists of defaults drift apart."""
    assert parse(["some/cache"]) == Options(cache="some/cache")


def test_every_option_arrives() -> None:
    """An option that is parsed and dropped does nothing, silently."""
    line = (
        "c --model sage --aggregator max --residual --jumping cat"
        " --layers 3 --hidden 7 --norm batch --dropout 0.1 --input-dropout 0 --lr 0.5 --weight-decay 0"
        " --epochs 9 --patience 0 --eval-every 2 --exchange broadcast --relay off --staleness fixed:3"
        " --staleness-grad variation:0.1:4 --warmup 3 --settle 2 --precision bf16 --wire int8 --error-feedback"
        " --trace t --seed 5 --split 1 --device cpu --timeout 2.5 --verify --json -q --debug --task classes"
        " --metric f1-macro --class-weights 1,2 --inductive --optimiser sgd --momentum 0.5 --schedule step:3"
        " --lr-warmup 2 --clip-norm 1.5 --checkpoint d --checkpoint-every 4 --checkpoint-minutes 2 --resume"
        " --restarts 3 --output o --save-predictions p.npy --save-embeddings e.pt --save-weights w.safetensors"
        " --tensorboard b --wandb p --mlflow e --anyway --dense-features --weights-wire bf16"
    )
    options = parse(line.split())
    assert options == Options(
        cache="c",
        model="sage",
        aggregator="max",
        residual=True,
        jumping="cat",
        layers=3,
        hidden=7,
        norm="batch",
        dropout=0.1,
        input_dropout=0.0,
        lr=0.5,
        weight_decay=0.0,
        epochs=9,
        patience=0,
        eval_every=2,
        exchange="broadcast",
        relay="off",
        staleness="fixed:3",
        staleness_grad="variation:0.1:4",
        warmup=3,
        settle=2,
        precision="bf16",
        wire="int8",
        error_feedback=True,
        trace="t",
        seed=5,
        split=1,
        device="cpu",
        timeout=2.5,
        verify=True,
        json=True,
        quiet=True,
        debug=True,
        task="classes",
        metric="f1-macro",
        class_weights="1,2",
        inductive=True,
        optimiser="sgd",
        momentum=0.5,
        schedule="step:3",
        lr_warmup=2,
        clip_norm=1.5,
        checkpoint="d",
        checkpoint_every=4,
        checkpoint_minutes=2.0,
        resume=True,
        restarts=3,
        output="o",
        save_predictions="p.npy",
        save_embeddings="e.pt",
        save_weights="w.safetensors",
        tensorboard="b",
        wandb="p",
        mlflow="e",
        anyway=True,
        dense_features=True,
        weights_wire="bf16",
    )
    assert parse(["c", "--dropout", "0", "--validate-from", "training"]).validate_from == "training"
    assert parse(["c", "--error-budget", "0.25"]).error_budget == 0.25
    assert parse(["c", "--byte-budget", "0.05"]).byte_budget == 0.05
    line = (
        "c --model gatv2 --heads 3 --output-heads 2 --attention-dropout 0.2 --boundary-sampling 0.5 --edge-features t"
    )
    attention = parse(line.split())
    assert (attention.heads, attention.last_heads) == (3, 2)
    assert (attention.attention_dropout, attention.boundary_sampling) == (0.2, 0.5)
    assert attention.edge_features == "t"
    assert parse(["c", "--model", "rgcn", "--bases", "3", "--target", "paper"]) == Options(
        cache="c", model="rgcn", bases=3, target="paper"
    )
    words = "c --task links --edge-split 0.7,0.1,0.2 --disjoint-train 0.3 --embedding 5 --decoder mlp --negatives 2"
    assert parse([*words.split(), "--eval-negatives", "9", "--pair-batch", "11", "--save-pairs", "p.csv"]) == Options(
        cache="c",
        task="links",
        edge_split="0.7,0.1,0.2",
        disjoint_train=0.3,
        embedding=5,
        decoder="mlp",
        negatives=2,
        eval_negatives=9,
        pair_batch=11,
        save_pairs="p.csv",
    )
    words = "c --batch-size 64 --fanouts 15,all --eval-fanouts 20,9 --sampler-processes 2 --control-variates"
    assert parse(words.split()) == Options(
        cache="c", batch_size=64, fanouts="15,all", eval_fanouts="20,9", sampler_processes=2, control_variates=True
    )
    assert parse(["c", "--batch-size", "64", "--sample-from", "owners"]).sample_from == "owners"
    assert parse(["c", "--batch-size", "64", "--features-by", "columns"]).features_by == "columns"
    timed = parse(["c", "--batch-size", "64", "--time", "edges", "--time-strategy", "last"])
    assert (timed.time, timed.time_strategy) == ("edges", "last")
    drawn = parse(["c", "--batch-size", "64", "--sampler", "ladies"])
    assert (drawn.sampler, parse(["c", "--batch-size", "64", "--draw", "weighted"]).draw) == ("ladies", "weighted")
    cached = parse(["c", "--batch-size", "64", "--remote-row-cache", "200MB", "--cache-policy", "vip"])
    assert (cached.remote_row_cache, cached.cache_policy) == ("200MB", "vip")
    assert parse(["c", "--task", "edges", "--edge-label", "kind"]) == Options(
        cache="c", task="edges", edge_label="kind"
    )
    events = parse(
        [
            "c",
            "--model",
            "tgn",
            "--neighbours",
            "3",
            "--batch-size",
            "50",
            "--parallel",
            "1,2,1",
            "--lr",
            "0.5",
            "--heads",
            "4",
        ]
    )
    assert (events.neighbours, events.batch_size, events.parallel) == (3, 50, "1,2,1")
    assert (events.lr, events.heads) == (0.5, 4)
    assert parse(["c", "--model", "tgn", "--lost-mail", "0.2"]).lost_mail == 0.2
    assert not parse(["c", "--model", "tgn", "--no-node-vectors"]).node_vectors
    snapshots = parse(["c", "--model", "evolvegcn", "--variant", "h", "--history", "5", "--workers", "3"])
    assert (snapshots.variant, snapshots.history, snapshots.workers) == ("h", 5, 3)
    apart = {name for name, option in OPTIONS.items() if option.tasks}
    apart |= {"neighbours", "node_vectors", "parallel", "lost_mail", "variant", "history", "workers"}
    apart |= {"batch_size", "fanouts", "sampler_processes", "control_variates", "remote_row_cache", "cache_policy"}
    apart |= {"eval_fanouts", "sampler", "draw", "sample_from", "features_by", "time", "time_strategy"}
    apart |= {"heads", "output_heads", "attention_dropout", "boundary_sampling", "bases", "target", "edge_features"}
    apart |= {"error_budget", "byte_budget"}
    defaults = Options(cache="c")
    same = [name for name in Options.__slots__ if getattr(options, name) == getattr(defaults, name)]
    assert set(same) == {"cache", "config", "validate_from"} | apart, "an option is not tried"


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "c d",
        "c --model gta",
        "c --layers 0",
        "c --hidden 1.5",
        "c --dropout 1",
        "c --dropout -0.1",
        "c --input-dropout nan",
        "c --lr 0",
        "c --lr inf",
        "c --weight-decay -1",
        "c --epochs 0",
        "c --patience -1",
        "c --seed x",
        "c --exchange gossip",
        "c --staleness fixed:0",
        "c --staleness-grad variation:-1",
        "c --warmup -1",
        "c --precision int8",
        "c --wire fp8",
        "c --timeout 0",
        "c --schedule linear",
        "c --class-weights 1,x",
        "c --momentum 1",
        "c --checkpoint-minutes -1",
        "c --restarts 1",
        "c --optimiser adagrad",
        "c --epo 3",
        "c --no-such-option",
    ],
)
def test_wrong_options_are_refused_in_one_sentence(arguments: str) -> None:
    """A wrong value that gets through fails later, on every rank, far from its cause."""
    with pytest.raises(OptionError) as caught:
        parse(arguments.split())
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == 2


def test_input_dropout_follows_dropout_until_it_is_given() -> None:
    """`--dropout 0.3` alone drops inputs too, and `--input-dropout 0` is not the same as not giving it."""
    assert parse(["c", "--dropout", "0.3"]).first_dropout == 0.3
    assert parse(["c", "--dropout", "0.3", "--input-dropout", "0"]).first_dropout == 0.0


def test_help_shows_every_default(capsys: pytest.CaptureFixture[str]) -> None:
    """--help is where people look first; a percent sign in a text breaks it only when it is printed."""
    with pytest.raises(SystemExit) as caught:
        parse(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "--weight-decay" in text
    assert f"(default: {Options(cache='c').momentum})" in text
    assert "(default: 0.01; tgn: 0.0002)" in text


def test_help_and_wrong_options_need_no_torch() -> None:
    """Importing torch takes seconds, and `--help` and a wrong option would come after them."""
    script = (
        "import contextlib, sys\nfrom trainer.__main__ import main\n"
        "assert main(['c', '--layers', '0']) == 2\n"
        "with contextlib.suppress(SystemExit):\n    main(['--help'])\n"
        "print([name for name in ('torch', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert done.stderr.strip().startswith("rank 0: argument --layers: expected a whole number from 1")


def test_options_of_attention_and_sampling_arrive() -> None:
    """The same for those that do not go with the others."""
    line = "c --model gatv2 --heads 8 --attention-dropout 0.25 --exchange sequential --boundary-sampling 0.5"
    assert parse(line.split()) == Options(
        cache="c", model="gatv2", heads=8, attention_dropout=0.25, exchange="sequential", boundary_sampling=0.5
    )
    assert parse(["c", "--model", "a/b.py:Mine", "--heads", "2"]).model == "a/b.py:Mine"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--exchange sequential --staleness fixed", "frees a peer's rows"),
        ("--exchange sequential --staleness-grad adaptive", "frees a peer's rows"),
        ("--exchange sequential --error-feedback", "frees a peer's rows"),
        ("--exchange sequential --model gat --wire int8", "another way"),
        ("--exchange sequential --model m.py:M --wire int8", "another way"),
        ("--boundary-sampling 0.5 --staleness variation:0.1", "no delivery"),
        ("--boundary-sampling 0 --error-feedback", "no delivery"),
        ("--boundary-sampling 0.5 --exchange broadcast", "sends all"),
        ("--exchange tensor --model gat", "attention of --model gat needs whole rows"),
        ("--exchange tensor --model sage --aggregator max", "takes a maximum"),
        ("--exchange tensor --boundary-sampling 0.5", "brings no halo row"),
        ("--exchange tensor --staleness fixed", "could keep a copy"),
        ("--exchange tensor --staleness-grad adaptive", "could keep a copy"),
        ("--exchange tensor --error-feedback", "keeps the errors of halo rows"),
        ("--error-budget 0.1 --byte-budget 0.1", "one bounds the error, the other the bytes"),
        ("--byte-budget 0.1 --batch-size 8", "--byte-budget cannot be with --batch-size"),
        ("--error-budget 0.1 --exchange auto", "a pair of ranks exchanges"),
        ("--error-budget 0.1 --staleness-grad fixed", "how often rows are sent"),
        ("--error-budget 0.1 --wire int8", "the bits of a value"),
        ("--error-budget 0.1 --error-feedback", "in the next difference"),
        ("--error-budget 0.1 --boundary-sampling 0.5", "send a difference to"),
        ("--error-budget 0.1 --batch-size 8", "has no halo"),
        ("--error-budget 0.1 --precision fp16", "another loss scale"),
        ("--boundary-sampling 0.5 --model sage --aggregator max", "too small"),
        ("--model gin --precision fp16", "65,504"),
        ("--heads 2", "does nothing"),
        ("--model gin --attention-dropout 0.1", "does nothing"),
        ("--model gat --aggregator max", "does nothing"),
        ("--boundary-sampling 1.5", "from 0 to 1"),
        ("--boundary-sampling nan", "from 0 to 1"),
        ("--model mine", "FILE.py:Class"),
        ("--model mine.py:", "FILE.py:Class"),
    ],
)
def test_options_that_do_not_go_together_are_refused_with_the_reason(line: str, reason: str) -> None:
    """Two options of which one silently wins, or makes the other wrong."""
    with pytest.raises(OptionError, match=reason) as caught:
        parse(["c", *line.split()])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "--exchange sequential --wire int8",
        "--exchange sequential --model gat --wire bf16",
        "--exchange sequential --staleness fixed:1",
        "--boundary-sampling 1 --staleness fixed",
        "--error-budget 0 --wire int8 --staleness fixed",
        "--error-budget 0.3 --precision bf16 --model gat --warmup 3",
        "--boundary-sampling 0.5 --wire int8 --exchange sequential",
    ],
)
def test_options_that_go_together_are_taken(line: str) -> None:
    """A refusal that reaches too far."""
    assert parse(["c", *line.split()]).cache == "c"


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["cache", "--hiden", "3"], "--hiden 3 (did you mean --hidden?)"),
        (["cache", "--hiden=3"], "(did you mean --hidden?)"),
        (["cache", "--model", "sgae"], "(did you mean sage?)"),
        (["cache", "--norm", "bathc"], "(did you mean batch?)"),
        (["cache", "--wire", "fp23"], "(did you mean fp32?)"),
    ],
)
def test_what_is_meant_is_suggested(words: list[str], suggestion: str) -> None:
    """Guards against an unknown option or choice that gets no suggestion where one is near."""
    with pytest.raises(OptionError) as caught:
        parse(words)
    assert suggestion in str(caught.value)


def test_a_word_that_resembles_nothing_gets_no_suggestion() -> None:
    """Guards against a suggestion that has nothing to do with what was typed."""
    with pytest.raises(OptionError) as caught:
        parse(["cache", "--zzzz", "3"])
    assert "did you mean" not in str(caught.value)
