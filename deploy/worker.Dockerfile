# The agent side, with what the local backend's commands find in their sandbox.
# Build from the repository's root:
#   docker build -f deploy/worker.Dockerfile -t countersign-worker .
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /out/worker ./cmd/worker

FROM debian:12.12-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates curl git jq make procps ripgrep \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --create-home agent \
    && install -d -o 10001 -g 10001 /var/lib/countersign /var/lib/countersign-blobs
COPY --from=build /out/worker /usr/local/bin/worker
USER 10001:10001
WORKDIR /var/lib/countersign
ENV COUNTERSIGN_DATA_DIR=/var/lib/countersign
ENTRYPOINT ["/usr/local/bin/worker"]
