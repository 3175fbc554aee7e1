# Everything starts here. `make demo` and `make test` set up what they need by themselves.

PYTHON ?= python3
ARGS ?=

VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip install -q --disable-pip-version-check
READY := $(VENV)/.installed
TORCH := $(shell grep '^torch==' constraints.txt)

ORACLE := .oracle
SITE := .site
MANIFESTS := .manifests
AUDIT := .audit
ORACLE_READY := $(ORACLE)/.installed

# The harness that runs TensorFlow 1.15's own tests, and a git directory of TensorFlow's source.
CONFORMANCE ?=
TF_GIT ?=
MIRROR ?=
LIST ?= all

.DEFAULT_GOAL := help
.PHONY: help site site-check wheel demo test test-slow public lint oracle models ecosystem conformance bench fuzz chaos soak sanitize audit sbom manifests clean

help:
	@echo "make demo         set up, then train a digit classifier (ARGS='--epochs 3' passes options)"
	@echo "make test         set up, then run the tests (ARGS='-k digits' passes options)"
	@echo "make test-slow    the long tests, which make test omits"
	@echo "make public       write the public modules from what @export declares"
	@echo "make lint         ruff, mypy, pyright, layers, and whether the public modules are current"
	@echo "make oracle       compare with real TensorFlow, installed in $(ORACLE)"
	@echo "make models       GPT-2, BERT and DeepRec's recommenders as published: MIRROR=folder of git directories OWNER+NAME/repo"
	@echo "make conformance  TensorFlow 1.15's own tests: CONFORMANCE=harness folder TF_GIT=git directory LIST=suite"
	@echo "make ecosystem    the tests of Keras 3 and other libraries, here and on TensorFlow (ARGS='--only Sonnet --sample 5')"
	@echo "make bench        the same work here and in real TensorFlow, timed side by side"
	@echo "make fuzz         damaged files and hostile arguments, five minutes more of them (ARGS='--minutes 600' passes options)"
	@echo "make chaos        train through 100 faults in five modes, resumable (ARGS='--faults 1000' for more of them)"
	@echo "make manifests    validate the Kubernetes manifests with their schemas, installed in $(MANIFESTS)"
	@echo "make soak         two hours of training, queues, checkpoints and sessions: nothing grows (ARGS='--minutes 1')"
	@echo "make sanitize     the tests of the C sources under ASan, UBSan and TSan (ARGS='thread _keyed' chooses)"
	@echo "make audit        known vulnerabilities of the pinned dependencies (pip-audit)"
	@echo "make sbom         a CycloneDX list of what is installed, in build/sbom.json"
	@echo "make site         build the documentation in build/site (make site-check opens every page in Chromium)"
	@echo "make wheel        build two wheels in dist/: with C kernels for this Python and platform, and a pure one for all"
	@echo "make clean        remove the environments and the files of tools"

$(READY): pyproject.toml setup.py constraints.txt src/penstock/_src/io/_scanner.c \
	$(wildcard src/penstock/_src/kernels/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit("penstock needs Python 3.11 or newer: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	@echo "[1/3] making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "[2/3] installing $(TORCH), the largest part"
	@$(PIP) $(TORCH)
	@echo "[3/3] installing penstock and its tools"
	@$(PIP) -c constraints.txt -e '.[dev]'
	@$(RUN) -m compileall -q src
	@touch $@

demo: $(READY)
	@$(RUN) -m penstock._src.tools.demo $(ARGS)

test: $(READY)
	@OMP_NUM_THREADS=1 $(RUN) -m pytest -q -n 2 $(ARGS)

test-slow: $(READY)
	@OMP_NUM_THREADS=1 $(RUN) -m pytest -q -n 2 -m 'slow and not oracle and not gpu' $(ARGS)

lint: $(READY)
	@$(RUN) -m ruff check .
	@$(RUN) -m mypy
	@OMP_NUM_THREADS=1 $(RUN) scripts/make_public.py --check
	@OMP_NUM_THREADS=1 $(RUN) -m pytest -q -n 2 tests/test_layers.py tests/typing

public: $(READY)
	@OMP_NUM_THREADS=1 $(RUN) scripts/make_public.py

$(ORACLE_READY):
	@echo "making $(ORACLE) with real TensorFlow"
	@$(PYTHON) -m venv $(ORACLE)
	@$(ORACLE)/bin/python -m pip install -q --disable-pip-version-check 'tensorflow-cpu==2.21.*' 'tf_keras==2.21.*'
	@touch $@

oracle: $(READY) $(ORACLE_READY)
	@OMP_NUM_THREADS=1 $(RUN) -m tests.oracle.run --tf $(ORACLE)/bin/python $(ARGS)
	@OMP_NUM_THREADS=1 PENSTOCK_ORACLE=$(ORACLE)/bin/python $(RUN) -m pytest -q -m oracle tests/oracle

models: $(READY) $(ORACLE_READY)
	@test -n "$(MIRROR)" || { echo "set MIRROR to a folder with openai+gpt-2/repo and google-research+bert/repo, git directories"; exit 2; }
	@PENSTOCK_MIRROR=$(MIRROR) PENSTOCK_ORACLE=$(ORACLE)/bin/python $(RUN) -m pytest -q -m oracle tests/compat/programs/test_published_models.py \
		tests/compat/programs/test_recommender_zoo.py $(ARGS)

conformance: $(READY)
	@test -n "$(CONFORMANCE)" -a -n "$(TF_GIT)" || { echo "set CONFORMANCE to the harness folder and TF_GIT to TensorFlow's git directory"; exit 2; }
	@OMP_NUM_THREADS=1 $(RUN) $(CONFORMANCE)/run.py --tf-git $(TF_GIT) --backend penstock.compat.v1 --list $(LIST) $(ARGS)

ecosystem: $(READY)
	@PYTHONPATH=src:. $(RUN) -m tests.ecosystem.run $(ARGS)

bench: $(READY) $(ORACLE_READY)
	@for name in core fit files; do echo "== $$name"; $(RUN) benchmarks/$$name.py --tf $(ORACLE)/bin/python $(ARGS) || exit 1; done

fuzz: $(READY)
	@PYTHONPATH=src:. OMP_NUM_THREADS=1 $(RUN) -m tests.fuzz.campaign $(ARGS)

chaos: $(READY)
	@PYTHONPATH=src:. OMP_NUM_THREADS=1 $(RUN) -m tests.chaos.campaign $(ARGS)

soak: $(READY)
	@PYTHONPATH=src:. OMP_NUM_THREADS=1 $(RUN) -m tests.chaos.soak $(ARGS)

sanitize: $(READY)
	@$(RUN) scripts/sanitize.py $(ARGS)

$(AUDIT)/.installed:
	@$(PYTHON) -m venv $(AUDIT)
	@$(AUDIT)/bin/python -m pip install -q --disable-pip-version-check 'pip-audit==2.10.*' 'cyclonedx-bom==7.5.*'
	@touch $@

audit: $(AUDIT)/.installed
	@$(AUDIT)/bin/pip-audit --disable-pip --no-deps -r constraints.txt $(ARGS)

sbom: $(READY) $(AUDIT)/.installed
	@mkdir -p build
	@$(AUDIT)/bin/cyclonedx-py environment $(RUN) --pyproject pyproject.toml --output-reproducible --of JSON -o build/sbom.json
	@echo build/sbom.json

$(SITE)/.installed: scripts/site_requirements.txt
	@$(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/python -m pip install -q --disable-pip-version-check -r scripts/site_requirements.txt
	@touch $@

site: $(READY) $(SITE)/.installed
	@OMP_NUM_THREADS=1 $(RUN) scripts/make_site.py pages
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build -q --strict

site-check: $(SITE)/.installed
	@$(SITE)/bin/python scripts/make_site.py check

$(MANIFESTS)/.installed:
	@$(PYTHON) -m pip install -q --disable-pip-version-check --target $(MANIFESTS) 'kubernetes-validate==1.37.*'
	@touch $@

manifests: $(READY) $(MANIFESTS)/.installed
	@PYTHONPATH=$(MANIFESTS) $(RUN) -m pytest -q -n0 tests/tools/test_manifests.py $(ARGS)

wheel:
	@$(PYTHON) -m pip wheel -q --disable-pip-version-check --no-deps -w dist .
	@PENSTOCK_PURE=1 $(PYTHON) -m pip wheel -q --disable-pip-version-check --no-deps -w dist .
	@ls dist

clean:
	rm -rf $(VENV) $(ORACLE) $(SITE) $(AUDIT) $(MANIFESTS) build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis src/*.egg-info
	rm -f src/penstock/_src/io/*.so src/penstock/_src/kernels/*.so
	find src tests -name __pycache__ -type d -exec rm -rf {} +
