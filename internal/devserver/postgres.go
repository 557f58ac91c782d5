package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	schematool "go.temporal.io/server/tools/common/schema"
	sqltool "go.temporal.io/server/tools/sql"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// visibilityStore is where workflows are listed from, which PostgreSQL has in a
	// database of its own.
	visibilityStore = "visibility"
	// maxConns bounds the connections to each database; PostgreSQL allows 100 in all
	// by default, and each of four services has its own.
	maxConns = 8
)

// postgresDatabases are those of a PostgreSQL server, by store.
var postgresDatabases = []struct{ store, name, schema string }{
	{storeName, "temporal", "postgresql/v12/temporal"},
	{visibilityStore, "temporal_visibility", "postgresql/v12/visibility"},
}

// postgresConfig is how a server opens a database of a PostgreSQL server that is
// given as postgres://user:password@host:port?attribute=value.
func postgresConfig(address, database string) (*config.SQL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return nil, errors.New("the database's address is not like postgres://user:password@host:5432")
	}
	port := u.Port()
	if port == "" {
		port = "5432"
	}
	password, _ := u.User.Password()
	c := &config.SQL{
		PluginName: postgresql.PluginNamePGX, DatabaseName: database, User: u.User.Username(), Password: password,
		ConnectAddr: net.JoinHostPort(u.Hostname(), port), ConnectProtocol: "tcp",
		MaxConns: maxConns, MaxIdleConns: maxConns, MaxConnLifetime: time.Hour, ConnectAttributes: map[string]string{},
	}
	for key, values := range u.Query() {
		c.ConnectAttributes[key] = values[0]
	}
	return c, nil
}

// postgresStores are the stores of a server on PostgreSQL.
func postgresStores(o Options) (map[string]config.DataStore, error) {
	stores := map[string]config.DataStore{}
	for _, d := range postgresDatabases {
		c, err := postgresConfig(o.DatabaseURL, d.name)
		if err != nil {
			return nil, err
		}
		stores[d.store] = config.DataStore{SQL: c}
	}
	return stores, nil
}

// preparePostgres makes the databases that are missing, and brings their tables to
// this version by Temporal's own schema tool.
func preparePostgres(o Options, out logger) error {
	for _, d := range postgresDatabases {
		c, err := postgresConfig(o.DatabaseURL, d.name)
		if err != nil {
			return err
		}
		if err := prepareDatabase(c, d.schema, out); err != nil {
			return fmt.Errorf("preparing the database %s: %w", d.name, err)
		}
	}
	return nil
}

func prepareDatabase(c *config.SQL, schema string, out logger) error {
	admin := *c
	// It may be there already, and who may use it may not make it: what follows tells.
	created := sqltool.DoCreateDatabase(&admin, "postgres", out)
	db, err := sqltool.NewConnection(c, out)
	if err != nil {
		return fmt.Errorf("connecting: %w", errors.Join(created, err))
	}
	defer db.Close()
	if _, err := db.ReadSchemaVersion(); err != nil { // a new one
		if err := schematool.NewSetupSchemaTask(db, &schematool.SetupConfig{InitialVersion: "0.0"}, out).Run(); err != nil {
			return fmt.Errorf("making its tables: %w", errors.Join(created, err))
		}
	}
	if err := schematool.NewUpdateSchemaTask(db, &schematool.UpdateConfig{DBName: c.DatabaseName, SchemaName: schema}, out).Run(); err != nil {
		return fmt.Errorf("bringing its tables to this version: %w", err)
	}
	return nil
}

// registerNamespace makes a namespace through the server, and waits until all of it
// knows: SQLite's are in the file before the server starts.
func registerNamespace(ctx context.Context, c client.Client, name string, retention time.Duration) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		_, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
			Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(retention),
		})
		var there *serviceerror.NamespaceAlreadyExists
		if err == nil || errors.As(err, &there) {
			// Listing goes through the caches that workers' polls go through.
			_, err = c.WorkflowService().CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: name})
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("registering namespace %s: %w", name, err)
		case <-tick.C:
		}
	}
}
