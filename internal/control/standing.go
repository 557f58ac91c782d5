package control

import (
	"context"
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/countersign/countersign/internal/workflows"
)

// maxStanding bounds how many sessions [Client.Standing] tells of.
const maxStanding = 2000

// Standing tells of a team's running sessions how they stand, from their search
// attributes: newest first, as late as visibility is, at most 2,000.
func (c *Client) Standing(ctx context.Context, t workflows.Thread) ([]workflows.SessionStanding, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	prefix := "agent/" + t.Platform + "/" + t.Team + "/"
	filter := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND %s = '%s'",
		workflows.WorkflowTypeAgent, workflows.SearchAttributePlatform, t.Platform)
	var out []workflows.SessionStanding
	var token []byte
	for {
		res, err := c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: filter, NextPageToken: token})
		if err != nil {
			return nil, translate("listing sessions", err)
		}
		for _, w := range res.GetExecutions() {
			id := idOf(w)
			if !strings.HasPrefix(id, prefix) {
				continue
			}
			s := workflows.SessionStanding{WorkflowID: id}
			attribute(w.GetSearchAttributes(), workflows.SearchAttributeLiveness, &s.Liveness)
			attribute(w.GetSearchAttributes(), workflows.SearchAttributeWaiting, &s.Waiting)
			out = append(out, s)
		}
		if token = res.GetNextPageToken(); len(token) == 0 || len(out) >= maxStanding {
			return out, nil
		}
	}
}

// attribute reads a search attribute; one that is absent leaves to as it is.
func attribute(all *commonpb.SearchAttributes, name string, to any) {
	if p := all.GetIndexedFields()[name]; p != nil {
		_ = converter.GetDefaultDataConverter().FromPayload(p, to) // of another type counts as absent
	}
}
