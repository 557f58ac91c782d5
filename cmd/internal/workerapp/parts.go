package workerapp

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/workflows"
)

// parts lists what this worker serves, queue by queue.
func (a *App) parts() ([]part, error) {
	return []part{
		{queue: workflows.TaskQueueReasoning, workflows: true, register: a.registerReasoning},
	}, nil
}

func (a *App) registerReasoning(r worker.Registry) {
	agent, manager := &workflows.Agent{Settings: a.settings()}, &workflows.Manager{Settings: a.settings()}
	r.RegisterWorkflowWithOptions(agent.Workflow, workflow.RegisterOptions{Name: workflows.WorkflowTypeAgent})
	r.RegisterWorkflowWithOptions(manager.Workflow, workflow.RegisterOptions{Name: workflows.WorkflowTypeManager})
}
