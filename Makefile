# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
# make demo | test | lint | docs | bench | clean; everything installs what it needs into .venv and .build.
PYTHON ?= python3
ROS_VENV := .venv/bin
ARGS ?=
EXAMPLES ?= 2000

.PHONY: help demo msgs build env test-env docs-env test test-fast fuzz coverage lint docs soak bench bench-gpu clean distclean

help:
	@echo "make demo       run the GR00T policy on a simulated UR10e (30 s); writes runs/demo"
	@echo "make test       the whole test suite; make test-fast leaves out the slow part"
	@echo "make fuzz       the fuzz tests with EXAMPLES=2000 each; make coverage: of control/ and nodes/"
	@echo "make lint       ruff and mypy"
	@echo "make soak       half an hour of faults, and a verdict; ARGS=\"--minutes 3\" for a short one"
	@echo "make docs       the pages of docs/ and the API from the docstrings, into .build/site"
	@echo "make bench      print the numbers the project answers for"
	@echo "make bench-gpu  the engine at published sizes on a CUDA GPU; fails where a bound is not kept"
	@echo "make msgs       environment and messages only; then: . scripts/env.sh"
	@echo "make clean      remove what was built; make distclean also removes .venv"
	@echo "PYTHON=...      interpreter to build .venv with (3.10 to 3.13; default python3)"

env msgs build:
	@$(PYTHON) scripts/bootstrap.py

test-env:
	@$(PYTHON) scripts/bootstrap.py --test

docs-env:
	@$(PYTHON) scripts/bootstrap.py --docs

demo: msgs
	@$(ROS_VENV)/phyai-ros up model:=gr00t robot:=ur10e sim:=true \
	  instruction:="reach the red block" duration:=30 out:=runs/demo $(ARGS)

test: test-env
	@$(ROS_VENV)/python scripts/run_tests.py $(ARGS)

test-fast: test-env
	@$(ROS_VENV)/python scripts/run_tests.py --fast $(ARGS)

fuzz: test-env
	@PHYAI_FUZZ_EXAMPLES=$(EXAMPLES) bash -c '. scripts/env.sh && python -m pytest test/fuzz --timeout 0 $(ARGS)'

coverage: test-env
	@bash -c '. scripts/env.sh && python scripts/coverage.py $(ARGS)'

lint: test-env
	@$(ROS_VENV)/ruff check .
	@$(ROS_VENV)/ruff format --check .
	@$(ROS_VENV)/mypy

docs: docs-env
	@rm -rf docs/generated  # pages of modules that are gone
	@$(ROS_VENV)/sphinx-build -q -W --keep-going -b html -d .build/doctrees docs .build/site
	@echo "wrote .build/site/index.html"

# Rows, bars and docs/performance.md are written whatever the bounds say; then the status says it.
bench-gpu:
	@$(ROS_VENV)/python -m phyai_ros.tools.bench engine $(ARGS); engine=$$?; \
	for work in pi05_48 gr00t smolvla; do \
	  $(ROS_VENV)/python -m phyai_ros.tools.bench engine_compiled $$work; \
	done; \
	$(ROS_VENV)/python -m phyai_ros.tools.bench full_size; sizes=$$?; \
	$(ROS_VENV)/python scripts/performance_doc.py; exit $$((engine || sizes))

soak: msgs
	@$(ROS_VENV)/phyai-ros soak $(ARGS)

bench: msgs
	@$(ROS_VENV)/python -m phyai_ros.tools.bench $(ARGS)

clean:
	@rm -rf .build build install log .pytest_cache .mypy_cache .ruff_cache .hypothesis

distclean: clean
	@rm -rf .venv *.egg-info
