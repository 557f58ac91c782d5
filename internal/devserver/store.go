package devserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	schema "go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	storeName   = "default"
	clusterName = "active"
	fileName    = "temporal.db"
)

// busyTimeout is how long a statement waits for SQLite's lock, in ms. The
// server has one connection; another one is somebody looking at the file.
const busyTimeout = "10000"

// storeConfig is how the server opens its store.
func storeConfig(o Options) *config.SQL {
	if o.InMemory {
		return &config.SQL{
			PluginName:        sqlite.PluginName,
			DatabaseName:      primitives.NewUUID().String(),
			ConnectAttributes: map[string]string{"mode": "memory", "cache": "shared"},
		}
	}
	return fileConfig(filepath.Join(o.DataDir, fileName), map[string]string{
		"mode": "rw", "journal_mode": "WAL", "synchronous": "NORMAL", "busy_timeout": busyTimeout,
	})
}

func fileConfig(path string, attributes map[string]string) *config.SQL {
	// The plugin puts the name into an SQLite URI as it is.
	escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
	return &config.SQL{PluginName: sqlite.PluginName, DatabaseName: escaped, ConnectAttributes: attributes}
}

func clusterConfig(frontend string) *cluster.Config {
	return &cluster.Config{
		FailoverVersionIncrement: 10,
		MasterClusterName:        clusterName,
		CurrentClusterName:       clusterName,
		ClusterInformation: map[string]cluster.ClusterInformation{
			clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend},
		},
	}
}

// prepareStore makes the file if there is none, and the namespaces; in PostgreSQL
// the tables.
func prepareStore(o Options, cfg *config.Config, out logger) error {
	if o.DatabaseURL != "" {
		return preparePostgres(o, out)
	}
	if !o.InMemory {
		if err := createFile(filepath.Join(o.DataDir, fileName)); err != nil {
			return err
		}
	}
	var namespaces []*schema.NamespaceConfig
	for _, name := range o.Namespaces {
		ns, err := schema.NewNamespaceConfig(clusterName, name, false, o.SearchAttributes)
		if err != nil {
			return fmt.Errorf("describing namespace %s: %w", name, err)
		}
		ns.Detail.Config.Retention = durationpb.New(o.Retention)
		namespaces = append(namespaces, ns)
	}
	if err := schema.CreateNamespaces(cfg.Persistence.DataStores[storeName].SQL, namespaces...); err != nil {
		return fmt.Errorf("registering namespaces in Temporal's store: %w", err)
	}
	return nil
}

// createFile makes the database under another name and renames it, so that a
// process killed half-way leaves none rather than half a schema.
func createFile(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return fmt.Errorf("looking for Temporal's store: %w", err)
		}
		return nil
	}
	draft := path + ".new"
	for _, leftover := range []string{draft, draft + "-journal"} {
		if err := os.Remove(leftover); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an unfinished store: %w", err)
		}
	}
	f, err := os.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("creating Temporal's store: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("creating Temporal's store: %w", err)
	}
	// OFF: the draft is thrown away when this fails.
	if err := schema.SetupSchema(fileConfig(draft, map[string]string{"mode": "rw", "synchronous": "OFF"})); err != nil {
		return fmt.Errorf("setting up Temporal's store: %w", err)
	}
	if err := os.Rename(draft, path); err != nil {
		return fmt.Errorf("creating Temporal's store: %w", err)
	}
	return nil
}

// addSearchAttributes registers those of want that namespace lacks, and says whether
// there were any: in a file made by an older version of the program.
func addSearchAttributes(
	ctx context.Context, c client.Client, namespace string, want map[string]enumspb.IndexedValueType,
) (added bool, err error) {
	if len(want) == 0 {
		return false, nil
	}
	have, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return false, fmt.Errorf("listing search attributes of namespace %s: %w", namespace, err)
	}
	missing := map[string]enumspb.IndexedValueType{}
	for name, kind := range want {
		if _, ok := have.CustomAttributes[name]; !ok {
			missing[name] = kind
		}
	}
	if len(missing) == 0 {
		return false, nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	})
	if err != nil {
		return false, fmt.Errorf("adding search attributes to namespace %s: %w", namespace, err)
	}
	return true, nil
}
