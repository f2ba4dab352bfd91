"""A repository of pipelines: its files, to begin with.

In: nothing but the version. Out: texts by path. All of them work as they are: the pipeline is checked, its test passes,
and the workflow runs both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_README = """\
# Pipelines

| where | what |
|---|---|
| `pipelines/` | a file for each pipeline; `kubernetes.yaml` says how they run |
| `tests/` | messages in, records out: `ingest test tests` needs neither Kafka nor Java |
| `k8s/` | manifests, made by `ingest render k8s pipelines --out k8s` and never edited |

```shell
pip install -r requirements.txt
pre-commit install            # checks and tests before each commit
ingest check pipelines
ingest test tests
ingest plan pipelines/orders.yaml --set bootstrap=localhost:9092
ingest run pipelines/orders.yaml --set bootstrap=localhost:9092 --once
```

A pull request says what each changed pipeline would do from where production stands; the workflow's file says which
variables of the repository that needs. By hand, with what `ingest checkpoint export` prints in production:
`ingest plan pipelines/orders.yaml --progress orders.json`.

Editors complete and check the files by their first line. After an update of ingest:
`ingest json-schema > .ingest/pipeline.schema.json`.

Secrets are not in here: a file says `${secret_values.NAME}`, and its value comes from the environment
(`INGEST_SECRET_NAME`), a directory (`INGEST_SECRETS_DIR`), or in the cluster from the Secret of `kubernetes.yaml`.
"""
_PIPELINE = """\
# yaml-language-server: $schema=../.ingest/pipeline.schema.json
# Change messages of Debezium to one compacted topic for each table.
source:
  type: kafka
  properties.bootstrap.servers: ${bootstrap:-localhost:9092}
  topic: shop.changes
  value.format: debezium-json
  scan.startup.mode: earliest-offset
  # With a password: add these two, and a value for the secret
  # properties.security.protocol: SASL_SSL
  # properties.sasl.jaas.config: ${secret_values.kafka_jaas}

sink:
  type: upsert-kafka
  properties.bootstrap.servers: ${bootstrap:-localhost:9092}
  sink.delivery-guarantee: exactly-once

route:
  - source-table: shop.orders
    sink-table: ods.orders

pipeline:
  name: orders
  metrics.port: 9400
"""
_TEST = """\
title: An order that is paid, and one that goes
pipeline: ../pipelines/orders.yaml
messages:
  - topic: shop.changes
    key: {id: 1}
    value: {op: c, before: null, after: {id: 1, status: NEW}, source: {db: shop, table: orders}}
  - topic: shop.changes
    key: {id: 1}
    value: {op: u, before: {id: 1, status: NEW}, after: {id: 1, status: PAID}, source: {db: shop, table: orders}}
  - topic: shop.changes
    key: {id: 1}
    value: {op: d, before: {id: 1, status: PAID}, after: null, source: {db: shop, table: orders}}
records:
  - ods.orders {"id":1} {"id":1,"status":"NEW"}
  - ods.orders {"id":1} {"id":1,"status":"PAID"}
  - ods.orders {"id":1} null
"""
_KUBERNETES = """\
# How the pipelines of this folder run in a cluster: ingest render k8s pipelines --out k8s
image: ingest:VERSION
variables: {bootstrap: "kafka:9092"}
port: 9400
# secret: kafka        # a key for each ${secret_values.key}
# pipelines:
#   nightly: {schedule: "0 3 * * *"}
"""
_HOOKS = """\
repos:
  - repo: local
    hooks:
      - id: ingest-check
        name: pipelines are valid
        entry: ingest check
        language: system
        files: ^pipelines/.*\\.ya?ml$
        exclude: ^pipelines/kubernetes\\.yaml$
      - id: ingest-test
        name: tests of pipelines
        entry: ingest test tests
        language: system
        pass_filenames: false
      - id: ingest-render
        name: manifests are as the pipelines
        entry: ingest render k8s pipelines --out k8s --check
        language: system
        pass_filenames: false
"""
_WORKFLOW = """\
name: pipelines
on:
  push: {branches: [main]}
  pull_request:

permissions:
  contents: read

jobs:
  check:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "3.12", cache: pip}
      - uses: actions/setup-java@v4
        with: {distribution: temurin, java-version: "17"}
      - run: pip install -r requirements.txt
      # A pipeline file may name functions, and to import them is to run them: not those of a fork
      - if: github.event.pull_request.head.repo.fork
        run: ingest check pipelines --deny-warnings --no-code
      - if: ${{ !github.event.pull_request.head.repo.fork }}
        run: ingest check pipelines --deny-warnings
      - if: ${{ !github.event.pull_request.head.repo.fork }}
        run: ingest test tests
      - if: ${{ !github.event.pull_request.head.repo.fork }}
        run: ingest render k8s pipelines --out k8s --check

  # What each changed pipeline would do from where production stands, as one comment of the pull request. It needs a
  # runner that reaches production's brokers, and the repository's variable BOOTSTRAP; without it, it is left out.
  # The variable CHECKPOINTS is where production keeps its checkpoints, by the pipelines' names: a directory of the
  # runner, or a URI like s3a://bucket/checkpoints. Instead, progress/NAME.json may be what `ingest checkpoint export`
  # has printed there.
  plan:
    if: >-
      github.event_name == 'pull_request' && vars.BOOTSTRAP != ''
      && !github.event.pull_request.head.repo.fork
    needs: check
    runs-on: ubuntu-latest
    permissions:
      contents: read
      pull-requests: write
    steps:
      - uses: actions/checkout@v4
        with: {fetch-depth: 0}
      - uses: actions/setup-python@v5
        with: {python-version: "3.12", cache: pip}
      - uses: actions/setup-java@v4
        with: {distribution: temurin, java-version: "17"}
      - run: pip install -r requirements.txt
      - name: plan
        env:
          BASE: ${{ github.event.pull_request.base.sha }}
          BOOTSTRAP: ${{ vars.BOOTSTRAP }}
          CHECKPOINTS: ${{ vars.CHECKPOINTS }}
          # A secret of the repository for each that the pipelines name:
          # INGEST_SECRET_KAFKA_JAAS: ${{ secrets.KAFKA_JAAS }}
        run: |
          {
            echo '<!-- ingest plan -->'
            git diff --name-only --diff-filter=AM -z "$BASE" HEAD -- pipelines/ | while IFS= read -r -d '' file; do
              case "$file" in *kubernetes.yaml) continue ;; *.yaml | *.yml) ;; *) continue ;; esac
              name=$(basename "${file%.*}")
              export=progress/$name.json
              if [ ! -f "$export" ] && [ -n "$CHECKPOINTS" ]; then
                mkdir -p progress
                ingest checkpoint export "$CHECKPOINTS/$name" > "$export" || rm -f "$export"
              fi
              echo "### $file"
              [ -f "$export" ] || echo 'Production has no checkpoint of it here: this is what a first run would do.'
              echo '~~~~'
              if [ -f "$export" ]; then set -- --progress "$export"; else set --; fi
              ingest plan "$file" --set "bootstrap=$BOOTSTRAP" "$@" 2>&1 || echo "ended with exit code $?"
              echo '~~~~'
            done
          } | head -c 60000 > plan.md
          grep -q '^###' plan.md || echo 'No pipeline is changed.' >> plan.md
          cat plan.md >> "$GITHUB_STEP_SUMMARY"
      - name: comment
        env:
          GH_TOKEN: ${{ github.token }}
          NUMBER: ${{ github.event.pull_request.number }}
        run: |
          comments="repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments"
          ours='.[] | select(.body | startswith("<!-- ingest plan -->")) | .id'
          id=$(gh api "$comments" --paginate --jq "$ours" | head -n 1)
          if [ -n "$id" ]; then
            gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" -F body=@plan.md
          elif grep -q '^###' plan.md; then
            gh api --silent --method POST "$comments" -F body=@plan.md
          fi
"""
_IGNORED = """\
.ingest/
.secrets/
.venv/
"""


def repository_files(version: str) -> Mapping[str, str]:
    """Return the texts of all files, by their paths; `version` is that of this package."""
    return {
        ".github/workflows/pipelines.yaml": _WORKFLOW,
        ".gitignore": _IGNORED,
        ".pre-commit-config.yaml": _HOOKS,
        "README.md": _README,
        "pipelines/kubernetes.yaml": _KUBERNETES.replace("VERSION", version),
        "pipelines/orders.yaml": _PIPELINE,
        "requirements.txt": f"ingest[all]=={version}\n",
        "tests/orders.yaml": _TEST,
    }
