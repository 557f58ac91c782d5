# The chat side. Build from the repository's root:
#   docker build -f deploy/bot.Dockerfile -t countersign-bot .
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /out/bot ./cmd/bot
RUN mkdir -p /out/var/countersign /out/var/countersign-blobs

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/bot /usr/local/bin/bot
COPY --from=build --chown=10001:10001 /out/var /var/lib
USER 10001:10001
WORKDIR /var/lib/countersign
ENV COUNTERSIGN_DATA_DIR=/var/lib/countersign
ENTRYPOINT ["/usr/local/bin/bot"]
