"""Inspect, run, freeze and convert SavedModels, as saved_model_cli does.

    penstock saved-model show --dir DIR [--all | --tag_set serve [--signature_def serving_default]]
    penstock saved-model run --dir DIR --tag_set serve --signature_def serving_default --input_exprs 'x=[[1.0, 2.0]]'
    penstock saved-model freeze --dir DIR --output graph.pb
    penstock saved-model convert --input model.keras --output DIR
    penstock saved-model convert --to onnx --input DIR --output model.onnx

`freeze` writes a GraphDef without variables and functions. `convert` makes a SavedModel of a Keras file or a frozen graph,
or an ONNX file of either or of a SavedModel.
"""
from __future__ import annotations

import argparse

from penstock._src.serving import saved_models


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="print tag-sets, signatures and ops")
    run_it = actions.add_parser("run", help="run a signature and print the results")
    freeze = actions.add_parser("freeze", help="write a graph without variables")
    convert = actions.add_parser("convert", help="make a SavedModel or an ONNX file of a model")
    for command in (show, run_it, freeze, convert):
        if command is not convert:
            command.add_argument("--dir", required=True, help="folder of the SavedModel")
        command.add_argument("--tag_set", default=None if command is show else "serve", help="tags of the graph, with commas")
        command.add_argument("--signature_def", default=None if command is show else "serving_default", metavar="KEY")
    show.add_argument("--all", action="store_true", help="everything, of every graph")
    show.add_argument("--list_ops", action="store_true", help="the ops of the graph")
    run_it.add_argument("--inputs", default="", help="'KEY=FILE[NAME];...': .npy or .npz files, NAME an array in the latter")
    run_it.add_argument("--input_exprs", default="", help="'KEY=VALUE;...': Python literals, np.ones(SHAPE) or np.zeros(SHAPE)")
    run_it.add_argument("--input_examples", default="", help="'KEY=[{\"feature\": [values]}];...'")
    run_it.add_argument("--outdir", help="write the results there as .npy files")
    run_it.add_argument("--overwrite", action="store_true", help="replace files that exist")
    freeze.add_argument("--output", required=True, help="file of the frozen graph")
    convert.add_argument("--input", required=True, help="a .keras, .h5 or .pb file, or the folder of a SavedModel")
    convert.add_argument("--output", required=True, help="folder of the new SavedModel, or the ONNX file")
    convert.add_argument("--to", choices=("saved_model", "onnx"), default="saved_model", help="what to write")
    convert.add_argument("--opset", type=int, default=18, help="version of ONNX's operators")


def run(args: argparse.Namespace) -> int:
    """Runs the action."""
    getattr(saved_models, args.action)(args)
    return 0
