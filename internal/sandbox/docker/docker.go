// Package docker runs sandboxes as containers of a Docker Engine.
package docker

import (
	_ "github.com/docker/docker/client"
)
