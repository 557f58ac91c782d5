package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/countersign/countersign/internal/workflows"
)

// Versions are the worker versions that serve sessions and managers.
type Versions struct {
	Client    client.Client
	Namespace string
}

// Version is one of them.
type Version struct {
	BuildID string `json:"build_id"`
	// Current: what is at rest, and what begins, runs on it.
	Current bool `json:"current"`
	// Pinned is how many sessions and managers stay with it until they are at rest.
	Pinned int64     `json:"pinned"`
	Since  time.Time `json:"since"`
}

// List returns the versions that workers have been seen with, the newest first.
// Where there was none it is empty.
func (v Versions) List(ctx context.Context) ([]Version, error) {
	d, err := v.handle().Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	var none *serviceerror.NotFound
	if errors.As(err, &none) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("describing the worker deployment: %w", err)
	}
	current := d.Info.RoutingConfig.CurrentVersion
	var all []Version
	for _, s := range d.Info.VersionSummaries {
		n, err := v.count(ctx, pinnedTo("=", s.Version.BuildID))
		if err != nil {
			return nil, err
		}
		all = append(all, Version{
			BuildID: s.Version.BuildID, Since: s.CreateTime, Pinned: n, Current: current != nil && current.BuildID == s.Version.BuildID,
		})
	}
	return all, nil
}

// Use makes a version the current one. It fails where no worker of the version has been seen.
func (v Versions) Use(ctx context.Context, buildID string) error {
	_, err := v.handle().SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: buildID})
	if err != nil {
		return fmt.Errorf("making %q the current version: %w", buildID, err)
	}
	return nil
}

// Wake lets those that are pinned to another version look at which is current: what
// is at rest moves, what is in a turn moves at its end. It returns how many there
// were; what has moved may be among them for some seconds.
func (v Versions) Wake(ctx context.Context, buildID string) (int, error) {
	n := 0
	var page []byte
	for {
		res, err := v.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: v.Namespace, Query: pinnedTo("!=", buildID), NextPageToken: page,
		})
		if err != nil {
			return n, fmt.Errorf("listing what is pinned to another version: %w", err)
		}
		for _, w := range res.Executions {
			err := v.Client.SignalWorkflow(ctx, w.Execution.WorkflowId, "", workflows.SignalCheckVersion, nil)
			var gone *serviceerror.NotFound
			if err != nil && !errors.As(err, &gone) {
				return n, fmt.Errorf("waking %s: %w", w.Execution.WorkflowId, err)
			}
			n++
		}
		if page = res.NextPageToken; len(page) == 0 {
			return n, nil
		}
	}
}

func (v Versions) handle() client.WorkerDeploymentHandle {
	return v.Client.WorkerDeploymentClient().GetHandle(workflows.Deployment)
}

func (v Versions) count(ctx context.Context, query string) (int64, error) {
	res, err := v.Client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: v.Namespace, Query: query})
	if err != nil {
		return 0, fmt.Errorf("counting what is pinned: %w", err)
	}
	return res.Count, nil
}

// pinnedTo finds open sessions and managers by the version they are pinned to.
func pinnedTo(op, buildID string) string {
	return fmt.Sprintf("WorkflowType IN ('%s', '%s') AND ExecutionStatus = 'Running' AND TemporalWorkflowVersioningBehavior = 'Pinned' AND TemporalWorkerDeploymentVersion %s '%s:%s'",
		workflows.WorkflowTypeAgent, workflows.WorkflowTypeManager, op, workflows.Deployment, buildID)
}
